//! Does the generator measure what git's own client would? One pusher, `git push` in a loop.
//!
//! What the client spends by itself (starting its processes, packing, connecting) is the time of
//! the same loop against the null server, which answers from memory. What is left is the server's
//! time as git sees it, and stands beside the mean latency that `packhouse load` tells.

use super::Outcome;
use super::arguments::Arguments;
use super::server::{Running, Server};
use super::small::{self, open_to_all, run};
use super::support::objects::text;
use super::support::statistics::median;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Compares both clients on every server, and prints the table.
pub(crate) fn compare(servers: &[Server], scratch: &Path, arguments: &Arguments) -> Outcome<()> {
    let history = History::make(scratch)?;
    let mut results: Vec<Vec<Round>> = vec![Vec::new(); servers.len()];
    // The first round warms everything up and is not counted.
    for round in 0..=arguments.rounds {
        for (server, results) in servers.iter().zip(&mut results) {
            let turn = take_turn(server, &history, scratch, arguments.turn);
            let turn = turn.map_err(|error| format!("{}: {error}", server.name))?;
            if round > 0 {
                results.push(turn);
            }
        }
    }
    println!(
        "\n### git's own client and the generator, one pusher ({} rounds of {:?}, medians)\n",
        arguments.rounds, arguments.turn
    );
    println!(
        "| server | `git push` ms | of that the client's own | left for the server | packhouse load ms | ratio |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for (server, rounds) in servers.iter().zip(results) {
        let of = |value: fn(&Round) -> f64| median(rounds.iter().map(value).collect());
        println!(
            "| {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.2} |",
            server.name,
            of(|round| round.git) * 1e3,
            of(|round| round.client) * 1e3,
            of(Round::left) * 1e3,
            of(|round| round.generator) * 1e3,
            of(|round| round.generator / round.left()),
        );
    }
    Ok(())
}

/// Mean seconds a push, in one round.
#[derive(Clone, Copy, Debug)]
struct Round {
    git: f64,
    client: f64,
    generator: f64,
}

impl Round {
    fn left(&self) -> f64 {
        self.git - self.client
    }
}

fn take_turn(server: &Server, history: &History, scratch: &Path, turn: Duration) -> Outcome<Round> {
    let null = Running::null_server(scratch)?;
    let client = history.push_all(null.port, turn)?;
    drop(null);
    let directory = tempfile::Builder::new().prefix("stock-").tempdir_in(scratch)?;
    open_to_all(directory.path())?;
    let root = directory.path().join("repositories");
    for name in ["r.git", "g.git"] {
        run(Command::new("git").args(["init", "-q", "--bare"]).arg(root.join(name)))?;
    }
    run(Command::new("chmod").args(["-R", "a+rwX"]).arg(&root))?;
    let running = server.start(&directory.path().join("server"), &root)?;
    let git = history.push_all(running.port, turn)?;
    let seconds = turn.as_secs_f64().to_string();
    let url = format!("http://127.0.0.1:{}/g.git", running.port);
    let flags = ["--pushers", "1", "--reconnect", "--duration", &seconds];
    let summary = small::generate(&url, &flags)?;
    let mean = summary.pointer("/sides/0/latency/mean").and_then(serde_json::Value::as_f64);
    Ok(Round { git, client, generator: mean.ok_or("the generator told no mean latency")? })
}

/// A repository of commits as the generator makes them, each on top of the one before.
struct History {
    repository: PathBuf,
    commits: Vec<String>,
}

/// More than git's client pushes in a turn of a minute.
const COMMITS: usize = 1500;

impl History {
    fn make(scratch: &Path) -> Outcome<Self> {
        let repository = scratch.join("history.git");
        run(Command::new("git").args(["init", "-q", "--bare"]).arg(&repository))?;
        let mut stream = String::new();
        for number in 0..COMMITS {
            let message = format!("push {number}");
            write!(
                stream,
                "commit refs/heads/main\ncommitter A <a@example.org> {} +0000\ndata {}\n{message}\n",
                1_700_000_000 + number,
                message.len(),
            )?;
            stream.push_str("deleteall\n");
            for blob in 0..3 {
                let text = text(number * 3 + blob, 1024);
                writeln!(
                    stream,
                    "M 100644 inline load/{number}-{blob}\ndata {}\n{text}",
                    text.len()
                )?;
            }
        }
        let mut import = git(&repository);
        import.args(["fast-import", "--quiet"]).stdin(Stdio::piped());
        let mut import = import.spawn()?;
        import.stdin.take().ok_or("no pipe to git fast-import")?.write_all(stream.as_bytes())?;
        if !import.wait()?.success() {
            return Err("git fast-import failed".into());
        }
        let listed = git(&repository).args(["rev-list", "--reverse", "main"]).output()?;
        let commits: Vec<String> =
            String::from_utf8(listed.stdout)?.lines().map(str::to_owned).collect();
        Ok(Self { repository, commits })
    }

    /// Pushes commit after commit to one branch until the time is over; the mean seconds of one.
    fn push_all(&self, port: u16, turn: Duration) -> Outcome<f64> {
        let url = format!("http://127.0.0.1:{port}/r.git");
        let push = |commit: &String| {
            let refspec = format!("{commit}:refs/heads/main");
            run(git(&self.repository).args(["push", "-q", &url, &refspec]))
        };
        // Not counted: the first push, which brings a whole history to an empty repository.
        let (first, rest) = self.commits.split_first().ok_or("no commits")?;
        push(first)?;
        let begun = Instant::now();
        let mut pushes: u32 = 0;
        for commit in rest {
            if begun.elapsed() >= turn {
                break;
            }
            push(commit)?;
            pushes += 1;
        }
        Ok(begun.elapsed().as_secs_f64() / f64::from(pushes.max(1)))
    }
}

fn git(repository: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(repository);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    command
}
