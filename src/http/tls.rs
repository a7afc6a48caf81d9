//! TLS: certificate and key from PEM files, HTTP/2 or HTTP/1.1 by the client's choice.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The name of HTTP/2 in ALPN (RFC 9113, 3.2).
pub(super) const HTTP_2: &[u8] = b"h2";

/// Certificate and key, read and checked.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
}

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A PEM file could not be read.
    #[error("cannot read '{}'", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The certificate file holds no certificate.
    #[error("no certificate in '{}'", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// Certificate and key do not go together, or are of no use.
    #[error("cannot use certificate '{}' with key '{}': {reason}", certificate.display(), key.display())]
    Unusable {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What the TLS library says.
        reason: String,
    },
}

impl Tls {
    /// Reads a certificate chain, the server's own first, and its private key.
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .map_err(|error| unreadable(certificate, error))?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate { path: certificate.to_owned() });
        }
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
        let config = configure(chain, private).map_err(|error| TlsError::Unusable {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self { config: Arc::new(config) })
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

fn configure(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![HTTP_2.to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn unreadable(path: &Path, error: pem::Error) -> TlsError {
    let source = match error {
        pem::Error::Io(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
    };
    TlsError::Pem { path: path.to_owned(), source }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_wrong_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let error = Tls::open(&path("none"), &path("none")).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot read '{}'", path("none").display()));
        fs::write(path("empty"), "no PEM at all").unwrap();
        let error = Tls::open(&path("empty"), &path("empty")).unwrap_err();
        assert_eq!(error.to_string(), format!("no certificate in '{}'", path("empty").display()));
        let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        fs::write(path("nonsense"), nonsense).unwrap();
        assert!(matches!(Tls::open(&path("nonsense"), &path("empty")), Err(TlsError::Pem { .. })));
    }
}
