//! The rules of the house that no compiler checks: who may name whom, who may touch the disk, and
//! how long a file or a function may grow.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

/// The floors, lowest first; each module with the modules of its own floor it may name.
const FLOORS: &[&[(&str, &[&str])]] = &[
    &[("model", &[])],
    &[("wire", &[]), ("pack", &[]), ("fsck", &["links"]), ("links", &[]), ("access", &[])],
    &[("repo", &[])],
    &[
        ("ingest", &["snapshot"]),
        ("connectivity", &["snapshot"]),
        ("snapshot", &[]),
        ("refs", &[]),
        ("hooks", &[]),
    ],
    &[("report", &[])],
    &[("receive", &[])],
    &[("cli", &["http", "auth", "load"]), ("http", &["auth"]), ("auth", &[]), ("load", &[])],
];

const FILE_LINES_MAX: usize = 450;
const FUNCTION_LINES_MAX: usize = 70;

#[test]
fn modules_name_only_modules_of_floors_below() {
    let mut faults = Vec::new();
    for source in sources() {
        let Some(module) = source.module() else { continue };
        let allowed = allowed_for(&module);
        for (line, named) in source.crate_paths() {
            let known =
                FLOORS.iter().flat_map(|floor| floor.iter()).any(|(name, _)| *name == named);
            if known && named != module && !allowed.contains(&named.as_str()) {
                faults.push(format!("{}:{line}: {module} names {named}", source.shown()));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_module_has_a_floor() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in fs::read_dir(root).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            let name = entry.file_name().into_string().unwrap();
            let known =
                FLOORS.iter().flat_map(|floor| floor.iter()).any(|(known, _)| *known == name);
            assert!(known, "src/{name} stands on no floor");
        }
    }
}

#[test]
fn pure_floors_touch_no_world() {
    let worlds = [
        "std::fs",
        "std::net",
        "std::thread",
        "std::env",
        "Instant::now",
        "SystemTime",
        "tracing::",
    ];
    forbid(&worlds, |source| {
        matches!(
            source.module().as_deref(),
            Some("model" | "wire" | "pack" | "fsck" | "links" | "access" | "report")
        )
    });
}

#[test]
fn only_the_durable_module_changes_the_disk() {
    let changes = [
        "fs::write",
        "fs::rename",
        "fs::remove_",
        "fs::create_dir",
        "fs::hard_link",
        "fs::copy",
        "fs::set_permissions",
        "File::create",
        "OpenOptions",
        "DirBuilder",
        "sync_all",
        "sync_data",
        "set_times",
        "set_len",
        "rustix::fs::rename",
        "rustix::fs::unlink",
        "rustix::fs::mkdir",
        "rustix::fs::link",
    ];
    // What the load generator writes is no repository of the server's.
    let allowed = ["src/repo/durable.rs", "src/repo/durable_file.rs", "src/load/files.rs"];
    forbid(&changes, |source| !allowed.iter().any(|path| source.path.ends_with(path)));
}

#[test]
fn the_load_generator_knows_nothing_of_the_server() {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|source| source.module().as_deref() == Some("load")) {
        for (line, named) in source.crate_paths() {
            if !["load", "model", "pack", "wire"].contains(&named.as_str()) {
                faults.push(format!("{}:{line}: {named}", source.shown()));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn the_environment_is_read_in_one_place() {
    forbid(&["env::var", "env::vars", "set_var", "env::remove_var"], |source| {
        !source.path.ends_with("src/repo/environment.rs")
    });
}

#[test]
fn nothing_is_left_unfinished() {
    let words = ["todo!(", "unimplemented!(", "#[ignore", "FIXME", "XXX", "dbg!("];
    let mut faults = Vec::new();
    for source in sources() {
        for (number, line) in source.text.lines().enumerate() {
            if words.iter().any(|word| line.contains(word)) {
                faults.push(format!("{}:{}: {line}", source.shown(), number + 1));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn files_and_functions_stay_short() {
    let mut faults = Vec::new();
    for source in sources() {
        let lines = source.code.lines().count();
        if lines > FILE_LINES_MAX {
            faults.push(format!("{} has {lines} lines without its tests", source.shown()));
        }
        for (line, length) in function_lengths(&source.code) {
            if length > FUNCTION_LINES_MAX {
                faults.push(format!("{}:{line}: a function of {length} lines", source.shown()));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_file_says_what_it_is() {
    for source in sources() {
        assert!(source.text.starts_with("//! "), "{} does not open with `//!`", source.shown());
    }
}

#[test]
fn the_checks_themselves_catch_what_they_should() {
    let source = Source::new(
        PathBuf::from("/x/src/wire/y.rs"),
        "//! x\nuse crate::{\n  model::A,\n  repo::{B, C},\n};\n// crate::http\nfn f() { let s = \
         \"crate::cli\"; crate::refs::g(); }\n#[cfg(test)]\nmod tests { use crate::auth; }\n"
            .to_owned(),
    );
    let named: Vec<String> = source.crate_paths().into_iter().map(|(_, name)| name).collect();
    assert_eq!(named, ["model", "repo", "refs"]);
    assert_eq!(source.module().as_deref(), Some("wire"));
    assert_eq!(function_lengths("fn a() {\n  {\n  }\n}\nfn b();\n"), [(1, 4)]);
}

fn forbid(words: &[&str], applies: impl Fn(&Source) -> bool) {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|source| applies(source)) {
        for (number, line) in source.code.lines().enumerate() {
            if let Some(word) = words.iter().find(|word| line.contains(*word)) {
                faults.push(format!("{}:{}: {word}", source.shown(), number + 1));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

fn allowed_for(module: &str) -> Vec<&'static str> {
    let mut below = Vec::new();
    for floor in FLOORS {
        if let Some((_, beside)) = floor.iter().find(|(name, _)| *name == module) {
            below.extend_from_slice(beside);
            return below;
        }
        below.extend(floor.iter().map(|(name, _)| *name));
    }
    panic!("src/{module} stands on no floor")
}

struct Source {
    path: PathBuf,
    text: String,
    /// The text without comments, string contents and unit tests; line numbers are kept.
    code: String,
}

impl Source {
    fn new(path: PathBuf, text: String) -> Self {
        let blanked = blank_comments_and_strings(&text);
        let end = blanked.find("#[cfg(test)]\nmod ").unwrap_or(blanked.len());
        let code = blanked[..end].to_owned();
        Self { path, text, code }
    }

    fn module(&self) -> Option<String> {
        let parts: Vec<_> = self.path.iter().map(|part| part.to_str().unwrap()).collect();
        let src = parts.iter().rposition(|part| *part == "src")?;
        (parts.len() > src + 2).then(|| parts[src + 1].to_owned())
    }

    fn shown(&self) -> String {
        let parts: Vec<_> = self.path.iter().map(|part| part.to_str().unwrap()).collect();
        let src = parts.iter().rposition(|part| *part == "src").unwrap_or(0);
        parts[src..].join("/")
    }

    /// Where the modules are that this file declares for tests alone, without their extension.
    fn test_modules(&self) -> Vec<PathBuf> {
        let is_root =
            matches!(self.path.file_stem().and_then(|stem| stem.to_str()), Some("mod" | "lib"));
        let beside = self.path.parent().unwrap();
        let below = if is_root { beside.to_owned() } else { self.path.with_extension("") };
        self.text
            .match_indices("#[cfg(test)]\nmod ")
            .map(|(at, found)| word(&self.text[at + found.len()..]))
            .map(|name| below.join(name))
            .collect()
    }

    /// The first segment of every `crate::` path, those in grouped imports included.
    fn crate_paths(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (at, _) in self.code.match_indices("crate::") {
            let line = self.code[..at].matches('\n').count() + 1;
            let rest = &self.code[at + "crate::".len()..];
            if let Some(group) = rest.strip_prefix('{') {
                found.extend(group_heads(group).into_iter().map(|head| (line, head)));
            } else {
                found.push((line, word(rest)));
            }
        }
        found
    }
}

fn group_heads(group: &str) -> Vec<String> {
    let mut heads = Vec::new();
    let mut depth = 0;
    let mut start = true;
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = true,
            letter if start && !letter.is_whitespace() => {
                heads.push(word(&group[at..]));
                start = false;
            }
            _ => {}
        }
    }
    heads
}

fn word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

fn blank_comments_and_strings(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(hashes) = raw_string_hashes(rest) {
            let close = format!("\"{}", "#".repeat(hashes));
            let open = hashes + 2;
            rest[open..].find(&close).map_or(rest.len(), |end| open + end + close.len())
        } else if letter == '"' {
            string_length(rest)
        } else if letter == '\'' {
            char_length(rest)
        } else {
            out.push(letter);
            rest = &rest[letter.len_utf8()..];
            continue;
        };
        out.extend(rest[..length].chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }));
        rest = &rest[length..];
    }
    out
}

fn raw_string_hashes(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('r')?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return at + 1,
            _ => escaped = false,
        }
    }
    text.len()
}

/// The length of a char literal, or 1 for the tick of a lifetime.
fn char_length(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    match letters.next() {
        Some((_, '\\')) => text[2..].find('\'').map_or(1, |end| {
            // `'\''` ends at the second tick after the backslash.
            if end == 0 { text[3..].find('\'').map_or(1, |end| end + 4) } else { end + 3 }
        }),
        Some(_) => match letters.next() {
            Some((at, '\'')) => at + 1,
            _ => 1,
        },
        None => 1,
    }
}

/// Every function with a body: its first line and its number of lines.
fn function_lengths(code: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let begins = line
            .split_whitespace()
            .position(|word| word == "fn")
            .is_some_and(|at| line.split_whitespace().take(at).all(is_modifier));
        if !begins {
            continue;
        }
        let mut depth = 0i32;
        'function: for (offset, line) in lines[number..].iter().enumerate() {
            for letter in line.chars() {
                match letter {
                    '{' => depth += 1,
                    '}' if depth == 1 => {
                        found.push((number + 1, offset + 1));
                        break 'function;
                    }
                    '}' => depth -= 1,
                    ';' if depth == 0 => break 'function,
                    _ => {}
                }
            }
        }
    }
    found
}

fn is_modifier(word: &str) -> bool {
    word.starts_with("pub") || matches!(word, "async" | "const" | "unsafe" | "extern" | "in")
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert!(!found.is_empty(), "no source file was found");
    let tests: Vec<PathBuf> = found.iter().flat_map(Source::test_modules).collect();
    for source in &mut found {
        if tests
            .iter()
            .any(|test| source.path.starts_with(test) || source.path == test.with_extension("rs"))
        {
            source.code.clear();
        }
    }
    found
}

fn collect(directory: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push(Source::new(path, text));
        }
    }
}
