//! Push requests made by hand.

/// What an ordinary client asks for.
pub const CAPABILITIES: &str = "report-status side-band-64k agent=probe";

/// A push: commands, capabilities, and what follows them.
#[derive(Clone, Debug, Default)]
pub struct Request {
    shallow: Vec<String>,
    commands: Vec<(String, String, Vec<u8>)>,
    capabilities: Option<String>,
    options: Option<Vec<String>>,
    certificate: Option<(String, String)>,
    pack: Vec<u8>,
}

impl Request {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn command(mut self, old: &str, new: &str, name: impl AsRef<[u8]>) -> Self {
        self.commands.push((old.to_owned(), new.to_owned(), name.as_ref().to_vec()));
        self
    }

    pub fn shallow(mut self, id: &str) -> Self {
        self.shallow.push(id.to_owned());
        self
    }

    /// Other capabilities than [`CAPABILITIES`].
    pub fn capabilities(mut self, capabilities: &str) -> Self {
        self.capabilities = Some(capabilities.to_owned());
        self
    }

    /// Push options; the capability must be asked for beside.
    pub fn options(mut self, options: &[&str]) -> Self {
        self.options = Some(options.iter().map(|option| (*option).to_owned()).collect());
        self
    }

    /// The commands as a certificate with these headers and this signature.
    pub fn signed(mut self, headers: &str, signature: &str) -> Self {
        self.certificate = Some((headers.to_owned(), signature.to_owned()));
        self
    }

    /// The text of the certificate.
    pub fn certificate(&self) -> Vec<u8> {
        let (headers, signature) = self.certificate.as_ref().unwrap();
        let mut text = format!("certificate version 0.1\n{headers}\n").into_bytes();
        for (old, new, name) in &self.commands {
            text.extend_from_slice(format!("{old} {new} ").as_bytes());
            text.extend_from_slice(name);
            text.push(b'\n');
        }
        text.extend_from_slice(signature.as_bytes());
        text
    }

    pub fn pack(mut self, pack: impl Into<Vec<u8>>) -> Self {
        self.pack = pack.into();
        self
    }

    /// The bytes of the request.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for id in &self.shallow {
            bytes.extend_from_slice(&pkt(format!("shallow {id}").as_bytes()));
        }
        if self.certificate.is_some() {
            let capabilities = self.capabilities.as_deref().unwrap_or(CAPABILITIES);
            bytes.extend_from_slice(&pkt(format!("push-cert\0{capabilities}").as_bytes()));
            for line in self.certificate().split_inclusive(|byte| *byte == b'\n') {
                bytes.extend_from_slice(&pkt(line));
            }
            bytes.extend_from_slice(&pkt(b"push-cert-end\n"));
        }
        let commands = if self.certificate.is_some() { &[][..] } else { &self.commands };
        for (at, (old, new, name)) in commands.iter().enumerate() {
            let mut line = format!("{old} {new} ").into_bytes();
            line.extend_from_slice(name);
            if at == 0 {
                let capabilities = self.capabilities.as_deref().unwrap_or(CAPABILITIES);
                line.extend_from_slice(format!("\0 {capabilities}").as_bytes());
            }
            bytes.extend_from_slice(&pkt(&line));
        }
        bytes.extend_from_slice(b"0000");
        if let Some(options) = &self.options {
            for option in options {
                bytes.extend_from_slice(&pkt(option.as_bytes()));
            }
            bytes.extend_from_slice(b"0000");
        }
        bytes.extend_from_slice(&self.pack);
        bytes
    }
}

/// One pkt-line.
pub fn pkt(payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{:04x}", payload.len() + 4).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}
