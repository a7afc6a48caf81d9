//! The servers: how each is configured, started and stopped.

use super::Outcome;
use super::small::open_to_all;
use super::support::group::Group;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A server of the comparison.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    front: Front,
    /// git's settings, for all repositories.
    settings: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Front {
    Apache,
    Nginx,
    Packhouse { durability: &'static str, unpack_limit: Option<&'static str> },
}

/// A server that runs. Dropped, it is stopped.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) port: u16,
    processes: Vec<Child>,
    /// Dropped after the processes have ended.
    pub(crate) group: Group,
}

const AS_INSTALLED: &[(&str, &str)] = &[];
const FLUSHING: &[(&str, &str)] = &[("core.fsync", "all")];
const AT_ITS_BEST: &[(&str, &str)] = &[("transfer.unpackLimit", "1"), ("gc.auto", "0")];

/// CGI processes that fcgiwrap runs at once.
const CGI_PROCESSES: &str = "16";

/// All servers, or those with one of `names` in their names.
pub(crate) fn all(names: &[String]) -> Vec<Server> {
    let mut servers = Vec::new();
    for (front, front_name) in [
        (Front::Apache, "Apache + git http-backend"),
        (Front::Nginx, "nginx + fcgiwrap + git http-backend"),
    ] {
        for (settings, variant) in [
            (AS_INSTALLED, "as installed"),
            (FLUSHING, "core.fsync=all"),
            (AT_ITS_BEST, "unpackLimit=1, gc.auto=0"),
        ] {
            servers.push(Server { name: format!("{front_name}, {variant}"), front, settings });
        }
    }
    for (durability, unpack_limit, variant) in [
        ("full", None, "as it comes"),
        ("full", Some("1"), "unpack limit 1"),
        ("git", None, "durability \"git\""),
    ] {
        let front = Front::Packhouse { durability, unpack_limit };
        servers.push(Server { name: format!("packhouse, {variant}"), front, settings: &[] });
    }
    servers.retain(|server| names.is_empty() || names.iter().any(|n| server.name.contains(n)));
    servers
}

/// Fails with what to install if a program is missing.
pub(crate) fn require_programs() -> Outcome<()> {
    let missing: Vec<&str> = [("apache2", "-v"), ("nginx", "-v"), ("fcgiwrap", "-h")]
        .into_iter()
        .filter(|(program, argument)| {
            Command::new(program)
                .arg(argument)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_err()
        })
        .map(|(program, _)| program)
        .collect();
    if !missing.is_empty() {
        let text = missing.join(", ");
        return Err(format!(
            "not found: {text}; on Debian: apt-get install apache2 nginx fcgiwrap (as root, and \
             /usr/sbin in PATH), then stop the services that this starts"
        )
        .into());
    }
    http_backend().map(drop)
}

fn http_backend() -> Outcome<PathBuf> {
    let output = Command::new("git").arg("--exec-path").output()?;
    let path = Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("git-http-backend");
    if path.exists() { Ok(path) } else { Err("git http-backend is not installed".into()) }
}

impl Server {
    /// Whether it is ours.
    pub(crate) fn is_packhouse(&self) -> bool {
        matches!(self.front, Front::Packhouse { .. })
    }

    /// Prints the configuration that it runs with, its paths shortened.
    pub(crate) fn print_configuration(&self, scratch: &Path) -> Outcome<()> {
        let text = match self.front {
            Front::Apache => self.apache(Path::new("DIR"), Path::new("ROOT"), 0)?,
            Front::Nginx => self.nginx(Path::new("DIR"), Path::new("ROOT"), 0)?,
            Front::Packhouse { .. } => self.packhouse(Path::new("ROOT"), 0).join(" "),
        };
        let text = text.replace(&scratch.display().to_string(), "DIR");
        println!(
            "\n<details><summary>{}</summary>\n\n```\n{}\n```\n</details>",
            self.name,
            text.trim()
        );
        Ok(())
    }

    /// Starts it on the repositories below `root`; `directory` is for its own files.
    pub(crate) fn start(&self, directory: &Path, root: &Path) -> Outcome<Running> {
        fs::create_dir_all(directory)?;
        fs::create_dir_all(root)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = || File::create(directory.join("log"));
        let group = Group::new(&format!("compare-{}-{port}", std::process::id()))?;
        let mut processes = Vec::new();
        match self.front {
            Front::Apache => {
                let file = directory.join("apache.conf");
                fs::write(&file, self.apache(directory, root, port)?)?;
                let mut command = group.command("apache2");
                command.arg("-DFOREGROUND").arg("-f").arg(file);
                processes.push(spawn(command, log()?)?);
            }
            Front::Nginx => {
                let file = directory.join("nginx.conf");
                fs::write(&file, self.nginx(directory, root, port)?)?;
                let mut wrap = group.command("fcgiwrap");
                let socket = format!("unix:{}", directory.join("socket").display());
                wrap.args(["-c", CGI_PROCESSES, "-s", &socket]);
                processes.push(spawn(wrap, log()?)?);
                wait_until("fcgiwrap listens", || directory.join("socket").exists())?;
                open_to_all(&directory.join("socket"))?;
                let mut command = group.command("nginx");
                command.arg("-p").arg(directory).arg("-c").arg(file);
                processes.push(spawn(command, log()?)?);
            }
            Front::Packhouse { .. } => {
                let mut command = group.command(env!("CARGO_BIN_EXE_packhouse"));
                command.args(self.packhouse(root, port).iter().skip(1));
                command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
                processes.push(spawn(command, log()?)?);
            }
        }
        let running = Running { port, processes, group };
        running.wait_until_it_listens()?;
        Ok(running)
    }

    fn packhouse(&self, root: &Path, port: u16) -> Vec<String> {
        let Front::Packhouse { durability, unpack_limit } = self.front else { return Vec::new() };
        let mut words = vec!["packhouse".to_owned(), "serve".into()];
        words.push(format!("--root={}", root.display()));
        words.push(format!("--listen=127.0.0.1:{port}"));
        words.push("--anonymous=write".into());
        words.push(format!("--durability={durability}"));
        words.extend(unpack_limit.map(|limit| format!("--unpack-limit={limit}")));
        words
    }

    /// What git is told, in the environment of the CGI.
    fn environment(&self, root: &Path) -> Vec<(String, String)> {
        // The repositories belong to whoever runs this, the processes to the web server's user.
        let mut pairs = vec![("http.receivepack", "true"), ("safe.directory", "*")];
        pairs.extend_from_slice(self.settings);
        let mut variables = vec![
            ("GIT_PROJECT_ROOT".to_owned(), root.display().to_string()),
            ("GIT_HTTP_EXPORT_ALL".into(), "1".into()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
            ("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()),
            ("GIT_CONFIG_COUNT".into(), pairs.len().to_string()),
        ];
        for (number, (key, value)) in pairs.into_iter().enumerate() {
            variables.push((format!("GIT_CONFIG_KEY_{number}"), key.into()));
            variables.push((format!("GIT_CONFIG_VALUE_{number}"), value.into()));
        }
        variables
    }

    fn apache(&self, directory: &Path, root: &Path, port: u16) -> Outcome<String> {
        let (directory, backend) = (directory.display(), http_backend()?);
        let set: String = self
            .environment(root)
            .iter()
            .map(|(name, value)| format!("SetEnv {name} \"{value}\"\n"))
            .collect::<Vec<_>>()
            .concat();
        let modules: String = ["mpm_event", "authz_core", "alias", "env", "cgid"]
            .map(|name| {
                format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")
            })
            .concat();
        Ok(format!(
            "ServerRoot {directory}\nPidFile {directory}/pid\nDefaultRuntimeDir {directory}\n\
             ScriptSock {directory}/cgisock\nErrorLog {directory}/error.log\nServerName localhost\n\
             Listen 127.0.0.1:{port}\nUser www-data\nGroup www-data\n{modules}\
             KeepAlive On\nMaxKeepAliveRequests 0\nKeepAliveTimeout 60\n\
             {set}ScriptAlias / {}/\n<Directory />\nRequire all granted\n</Directory>\n",
            backend.display()
        ))
    }

    fn nginx(&self, directory: &Path, root: &Path, port: u16) -> Outcome<String> {
        let (directory, backend) = (directory.display(), http_backend()?);
        let set: String = self
            .environment(root)
            .iter()
            .map(|(name, value)| format!("fastcgi_param {name} \"{value}\";\n"))
            .collect::<Vec<_>>()
            .concat();
        Ok(format!(
            "daemon off;\nuser www-data;\nworker_processes auto;\npid {directory}/pid;\nerror_log {directory}/error.log;\n\
             events {{ worker_connections 1024; }}\n\
             http {{\naccess_log off;\nclient_max_body_size 0;\nkeepalive_requests 1000000;\n\
             server {{\nlisten 127.0.0.1:{port};\nlocation / {{\nfastcgi_pass unix:{directory}/socket;\n\
             fastcgi_param SCRIPT_FILENAME {};\nfastcgi_param PATH_INFO $uri;\n\
             fastcgi_param QUERY_STRING $query_string;\nfastcgi_param REQUEST_METHOD $request_method;\n\
             fastcgi_param CONTENT_TYPE $content_type;\nfastcgi_param CONTENT_LENGTH $content_length;\n\
             fastcgi_param REMOTE_ADDR $remote_addr;\n{set}}}\n}}\n}}\n\
             # fcgiwrap -c {CGI_PROCESSES} -s unix:{directory}/socket\n",
            backend.display()
        ))
    }
}

impl Running {
    /// The null server of `packhouse load`, which answers from memory.
    pub(crate) fn null_server(scratch: &Path) -> Outcome<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let group = Group::new(&format!("compare-{}-{port}", std::process::id()))?;
        let mut command = group.command(env!("CARGO_BIN_EXE_packhouse"));
        command.args(["load", "null-server", "--listen", &format!("127.0.0.1:{port}")]);
        let log = File::create(scratch.join("null-server.log"))?;
        let running = Self { port, processes: vec![spawn(command, log)?], group };
        running.wait_until_it_listens()?;
        Ok(running)
    }

    fn wait_until_it_listens(&self) -> Outcome<()> {
        let listens = || TcpStream::connect(("127.0.0.1", self.port)).is_ok();
        wait_until("the server listens", listens)
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Outcome<()> {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > Duration::from_secs(10) {
            return Err(format!("waited for ten seconds until {what}").into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in self.processes.iter_mut().rev() {
            if let Some(id) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
                // One that has ended already is as good.
                let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
            }
            let _ = child.wait();
        }
    }
}

fn spawn(mut command: Command, log: File) -> Outcome<Child> {
    let program = command.get_program().to_os_string();
    let errors = log.try_clone()?;
    command.stdin(Stdio::null()).stdout(log).stderr(errors);
    command.spawn().map_err(|error| format!("{}: {error}", program.display()).into())
}
