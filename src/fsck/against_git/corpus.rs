//! Hand-made objects, most of them broken in one way.

use super::entry;
use crate::model::ObjectId;

/// Trees with every mode, name and order that is a fault, or nearly one.
pub(super) fn trees(blob: &ObjectId) -> Vec<Vec<u8>> {
    let null = ObjectId::null(blob.kind());
    let mut all = vec![Vec::new()];
    for mode in [
        "100644", "100755", "120000", "40000", "160000", "100664", "040000", "0100644", "100600",
        "644", "0", "777", "1100644", "10100644", "7100664", "60000", "140644", "00",
    ] {
        all.push(entry(mode, b"a", blob));
    }
    for name in names() {
        for mode in ["100644", "120000", "40000"] {
            all.push(entry(mode, &name, blob));
        }
    }
    all.push(entry("100644", b"a", &null));
    all.push(entry("100644", &[b'x'; 4096], blob));
    all.push(entry("100644", &[b'x'; 4097], blob));
    for list in [
        "a b",
        "b a",
        "a a",
        "a a/",
        "a a-b a/",
        "a a.b a.b.c a.b/ a/",
        "a/ a-b",
        "a- a/ a0",
        "a a.b z a.c a/",
        "a/ a/",
        "a/ a",
        "a0 a/",
        "foo foo.bar foo.bar.baz foo.bar/ foo/",
        "a a-b a-b-c a-c a/",
        "a a! a!! a!!! a!!/ a!/ a/",
        "a a! a!! a!!! a!/ a!!/ a/",
        "c b a",
        ".gitmodules .gitmodules.",
        "a a\u{1}b a/",
        "a ab a/",
        "a a-b aaa a/",
        "b a a- a/",
    ] {
        let names = list.split(' ');
        let tree = names.flat_map(|name| match name.strip_suffix('/') {
            Some(name) => entry("40000", name.as_bytes(), blob),
            None => entry("100644", name.as_bytes(), blob),
        });
        all.push(tree.collect());
    }
    all.extend(cut_trees(blob));
    all
}

fn cut_trees(blob: &ObjectId) -> Vec<Vec<u8>> {
    let good = entry("100644", b"a", blob);
    let odd = entry("100600", b".git", blob);
    let mut all = Vec::new();
    for end in 1..good.len() {
        all.push(good[..end].to_vec());
        all.push([&odd[..], &odd[..], &good[..end]].concat());
    }
    for bad in [
        entry("", b"b", blob),
        entry("1006x4", b"b", blob),
        entry("100644", b"", blob),
        entry("100844", b"b", blob),
        b"100644 b\0".repeat(5),
        entry(" 100644", b"b", blob),
    ] {
        all.push(bad.clone());
        all.push([&good[..], &odd[..], &bad[..]].concat());
        all.push([&odd[..], &bad[..], &good[..]].concat());
        all.push([&good[..], &good[..], &bad[..], &good[..]].concat());
    }
    all
}

const NAMES: &[&str] = &[
    ".",
    "..",
    "...",
    "/",
    "a/b",
    "/a",
    ".git",
    ".GIT",
    ".gIt",
    "git",
    ".gitx",
    ".git.",
    ".git ",
    ".git. .",
    ".git .x",
    ".git/",
    ".git/x",
    ".git\\",
    ".git\\x",
    ".git:",
    ".git:x",
    ".git::$I",
    "git~1",
    "GIT~1",
    "git~1 .",
    "git~1:",
    "git~2",
    "git~11",
    "a\\.git",
    "a\\b\\.git",
    "\\.git",
    "a\\git~1",
    "a\\.gitx",
    "a\\.git\\b",
    ".g\u{200c}it",
    "\u{200d}.git",
    ".git\u{feff}",
    ".g\u{200b}it",
    ".gi\u{202a}\u{202e}t",
    ".gi\u{206a}\u{206f}t",
    ".g\u{131}t",
    ".git\u{ffff}",
    ".git\u{fffe}x",
    ".git\u{fffd}",
    "a\\.gitmodules",
    "a\\.gitattributes",
    "a\\gitmod~1",
    "a\\.gitmodules\\",
    "~1000000",
    "~9999999",
    "~0000000",
    "~100000",
    "~1000000x",
    "~1000000 .",
    "~1000000:",
    "g~100000",
    "m~100000",
    "gi~10000",
    "ma~10000",
    "~~100000",
    "gi7~~100",
    "ma~1",
    "g\u{e9}7eba~1",
];

fn names() -> Vec<Vec<u8>> {
    let mut all: Vec<_> = NAMES.iter().map(|name| name.as_bytes().to_vec()).collect();
    for tail in
        [&b"\xff"[..], b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xe2\x80"]
    {
        all.push([b".git", tail].concat());
        all.push([b".g", tail, b"it"].concat());
    }
    for (word, short, hashed) in [
        ("gitmodules", "gitmod", "gi7eba"),
        ("gitattributes", "gitatt", "gi7d29"),
        ("gitignore", "gitign", "gi250a"),
        ("mailmap", "mailma", "maba30"),
    ] {
        all.extend(spellings(word, short, hashed).into_iter().map(String::into_bytes));
    }
    all
}

fn spellings(word: &str, short: &str, hashed: &str) -> Vec<String> {
    vec![
        format!(".{word}"),
        word.to_owned(),
        format!(".{}", word.to_uppercase()),
        format!(".{word}x"),
        format!(".{word}."),
        format!(".{word} "),
        format!(".{word} ."),
        format!(".{word}:"),
        format!(".{word}:x"),
        format!(".{word} x"),
        format!(".{word}/"),
        format!(".{word}\\"),
        format!(".\u{200c}{word}"),
        format!("\u{feff}.{word}\u{206c}"),
        format!(".{word}\u{200b}"),
        format!("{short}~1"),
        format!("{short}~4"),
        format!("{short}~0"),
        format!("{short}~5"),
        format!("{short}~1 ."),
        format!("{short}~1:a"),
        format!("{short}~11"),
        format!("{}~1", short.to_uppercase()),
        format!("{hashed}~1"),
        format!("{hashed}~9"),
        format!("{hashed}~0"),
        format!("{hashed}~12"),
        format!("{hashed}~"),
        format!("{}~1", hashed.to_uppercase()),
        format!("{}~10", &hashed[..5]),
        format!("{}~100", &hashed[..4]),
        format!("{}~1000", &hashed[..3]),
        format!("{}~1", &hashed[..5]),
        format!("{hashed}~1. "),
        format!("{hashed}~1:x"),
        format!("x\\.{word}"),
        format!("x\\{short}~1"),
        format!("x\\{hashed}~1"),
    ]
}

/// The contents of `.gitmodules`.
pub(super) fn gitmodules() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for name in [
        "a", "..", "../a", "a/..", "a/../b", "..\\\\a", "a\\\\..", "..a", "a..", "...", "", "/",
        ".", "a..b/c", "a\\\"b", "a b", "a.b.c", "..\\q", "../..",
    ] {
        all.push(format!("[submodule \"{name}\"]\nurl = x\npath\nunknown = 1\n"));
    }
    for url in URLS {
        all.push(format!("[submodule \"s\"]\n\turl = {url}\n"));
    }
    for path in ["-", "-x", "x-", "--", "\"-x\"", "\" -x\"", "", "\\\\-"] {
        all.push(format!("[submodule \"s\"]\n\tpath = {path}\n"));
    }
    for update in ["!x", "! x", "none", "checkout", "!", "x!", "\"!a b\" c", "", "merge"] {
        all.push(format!("[submodule \"s\"]\n\tupdate = {update}\n"));
    }
    let evil = "[submodule \"..\"]\nurl = -evil\n";
    for text in [
        "",
        "\n",
        "[",
        "[]",
        "x",
        "[submodule]\nurl = -x",
        "[submodule.foo]\nurl = -x\n",
        "[submodule.Foo.Bar]\nurl = -x\n",
        "[SubModule \"A\"]\nURL = -x\n",
        "[submodulex \"a\"]\nurl = -x",
        "[submodule \"a\"] url = -x",
        "[submodule \"a\"]url=-x#c",
        "[submodule \"a\"]\nurl = -x ; c",
        "[submodule \"a\"]\nurl = \"-x ; c\"",
        "[submodule \"a\"]\nurl = -x \\\n y",
        "[submodule \"a\"]\nurl = \\\n-x",
        "[submodule \"a\"]\nurl = \"-x",
        "[submodule \"a]\nurl = -x",
        "[submodule \"a\"]x]\nurl = -x",
        "[submodule a]\nurl = -x",
        "[submodule\t\"a\"]\nurl=-x",
        "[submodule \"a\"]\r\nurl = -x\r\n",
        "[submodule \"a\"]\rurl = -x\r",
        "[submodule \"a\"]\nurl = -x\r\r\n",
        "[submodule \"a\"]\nurl = \\x",
        "[submodule \"a\"]\nurl = -\\t\\b\\\\\\\"",
        "[submodule\n\"a\"]\nurl=-x",
        "[submodule \"a\"]\nurl",
        "[submodule \"a\"]\nurl\nurl = -y",
        "[submodule \"a\"]\nurl x = -y",
        "[submodule \"a\"]\nurl\t = -y",
        "[submodule \"a\"]\n1url = -y",
        "[submodule \"a\"]\nur_l = -y",
        "[submodule \"a\"]\n# url = -y",
        "; c\n[submodule \"a\"]\nurl = -y",
        "url = -y",
        "[ \"a\"]\nurl = -y",
        "[submodule \"a\0b\"]\nurl = -y",
        "[submodule \"a.b\0c\"]\nurl = -y",
        "[submodule \"a\"]\nurl = -y\0z",
        "[submodule \"a\"]\nurl\0 = -y",
        "[submodule \"a\"]\nurl = x\0-y\n\0",
        "[submodule \"a\u{e9}\"]\nurl = -\u{e9}",
        "[submodule \"a\\\nb\"]\nurl = -y",
        "[submodule \"a\"] [submodule \"b\"] url = -y",
        "[submodule \"a\"]\nurl = -y\n[submodule \"a\"]\nurl = -z\n",
        "[include]\npath = -x\n",
        "[submodule \"\"]\nurl = -y",
        "[submodule \"a\"]\nurl = \"\"\"-y\"  z  \"\" ",
        "[submodule \"a\"]\nurl =   \n",
    ] {
        all.push(text.to_owned());
        all.push(format!("{evil}{text}"));
        all.push(format!("{text}\n{evil}"));
    }
    all.into_iter().map(String::into_bytes).collect()
}

const URLS: &[&str] = &[
    "x",
    "-x",
    "--upload-pack=x",
    "./x",
    "../x",
    "./-x",
    "/x",
    "file:///x",
    "ssh://-x/y",
    "\"a\\nb\"",
    "./%0ax",
    "../%0Ax",
    "./%250a",
    "./%%0a",
    "./%0",
    "./%",
    "./%00a",
    "./a:%0a",
    ":%0a",
    "./%0:a%0a",
    "git://h%0a/x",
    "git://h/%0a",
    "git://h/x",
    "git:://%0a",
    "..\\\\x",
    ".\\\\%0a",
    "../:x",
    ".././:x",
    "..//x",
    "../..//x",
    ".//x",
    "./:x",
    "././/x",
    "..\\\\../.\\\\../:h",
    "../../../../:localhost:8080/foo",
    "../x:y",
    "....//x",
    "https://h/x",
    "https://h",
    "https:///x",
    "https://",
    "https:/x",
    "https:x",
    "https::https://h/x",
    "https::https:///x",
    "https:://h/x",
    "https::h/x",
    "https::",
    "http::ftp://h",
    "http::file:///x",
    "http::file://:80/x",
    "http::file://:/x",
    "http::1x://h",
    "ftp:///x",
    "ftps://h",
    "ftpsx:///x",
    "HTTPS:///x",
    "https://u@h/x",
    "https://u:p@h/x",
    "https://@h",
    "https://u@/x",
    "https://u%0a@h/x",
    "https://u:%0a@h/x",
    "https://%zz@h",
    "https://h:0/x",
    "https://h:/x",
    "https://h:00080/x",
    "https://h:65535",
    "https://h:65536",
    "https://h:1x/x",
    "https://h:000000000000",
    "https://:80/x",
    "https://[::1]/x",
    "https://[::1]:80/x",
    "https://[::1]:x/x",
    "https://h%41/x",
    "https://h_x/x",
    "https://h~x/x",
    "https://h x/x",
    "https://h\\\\x/x",
    "https://h/%0a",
    "https://h/%0A/..",
    "https://h/x/%0a/../y",
    "https://h/%0a/y/..",
    "https://h/..",
    "https://h/./..",
    "https://h/a/../..",
    "https://h/a/..",
    "https://h//..",
    "https://h/%2e%2e",
    "https://h/%2E/x",
    "https://h/.../..",
    "https://h/a/./../..",
    "https://h/....",
    "https://h/%",
    "https://h/%4",
    "https://h/%4g",
    "https://h?%0a",
    "https://h#%0a",
    "https://h?%",
    "https://h/?x/../..",
    "https://one.example.com?%0ahost=two.example.com/foo.git",
    "https://h?x@y/z",
    "https://h/x@y",
    "https://a@b@c/x",
    "https://h/\u{e9}",
    "https://\u{e9}/x",
    "https://h/%e9%00",
    "\"https://h/a\\nb\"",
    "\"https://h\\n/a\"",
    "\"./a\\nb\"",
    "\"https://u\\n@h/\"",
    "\"\\n\"",
    "\"ssh://a\\nb\"",
    "\"git://h/\\n\"",
];

/// The contents of `.gitattributes`.
pub(super) fn gitattributes() -> Vec<Vec<u8>> {
    let line = |length: usize| vec![b'x'; length];
    vec![
        Vec::new(),
        b"* text\n".to_vec(),
        line(2047),
        line(2048),
        [&line(2047)[..], b"\n", &line(2047)].concat(),
        [&line(2047)[..], b"\n", &line(2048)].concat(),
        [&line(3000)[..], b"\n", &line(3000)].concat(),
        [b"a\0", &line(3000)[..]].concat(),
        [&line(2048)[..], b"\0\n"].concat(),
        [b"\0", &line(3000)[..]].concat(),
        [b"\xff\n", &line(2048)[..]].concat(),
    ]
}

/// Commits with every fault.
pub(super) fn commits(tree: &ObjectId) -> Vec<Vec<u8>> {
    let who = "A U <a@b> 1 +0000";
    let by = format!("author {who}\ncommitter {who}\n");
    let head = format!("tree {tree}\n");
    let hex = &tree.to_string()[1..];
    let mut all = vec![
        String::new(),
        "\n".into(),
        "x".into(),
        head.clone(),
        format!("{head}\n"),
        format!("{head}{by}"),
        format!("{head}{by}\nx"),
        format!("{head}{by}x"),
        format!("{head}{by}enc x\n\n"),
        format!("{head}\n{by}\n"),
        format!("{by}\n"),
        format!("parent {tree}\n{by}"),
        format!("tree {hex}\n{by}"),
        format!("tree {tree} \n{by}"),
        format!("tree  {tree}\n{by}"),
        format!("tree\n{by}"),
        format!("tree {tree}x{by}"),
        format!("{head}parent {tree}\n{by}"),
        format!("{head}parent {hex}\n{by}"),
        format!("{head}parent \n{by}"),
        format!("{head}parent {tree}\nparent {hex}g\n{by}\n"),
        format!("{head}author {who}\nparent {tree}\ncommitter {who}\n"),
        format!("{head}author {who}\n"),
        format!("{head}committer {who}\n"),
        format!("{head}author {who}\n{by}"),
        format!("{head}author {who}\nauthor {who}\n{by}\n"),
        format!("{head}committer {who}\nauthor {who}\n"),
        format!("{head}{by}\nx\0y"),
        format!("{head}{by}x\0\n\ny"),
        format!("{head}{by}x\0"),
        format!("\0{head}{by}\n"),
        format!("{head}{by}\n\n\0"),
        format!("{head}author <a> 1 +0000\nauthor {who}\ncommitter {who}\n"),
        format!("tree {}\n{by}", tree.to_string().to_uppercase()),
        format!("{head}{by}gpgsig x\n y\n\nz"),
        format!("{head}author {who}\ncommitter\n"),
        format!("{head}author\n{by}"),
        format!("{head}author {who}"),
        format!("{head}author {who}\ncommitter {who}"),
    ];
    for person in PEOPLE {
        all.push(format!("{head}author {person}\ncommitter {who}\n\nx"));
        all.push(format!("{head}author {who}\ncommitter {person}\n\nx\0"));
    }
    all.into_iter().map(String::into_bytes).collect()
}

const PEOPLE: &[&str] = &[
    "",
    " ",
    "A",
    "A <",
    "A <a",
    "A <a>",
    "A <a> ",
    "A <a> 1",
    "A <a> 1 ",
    "A <a> 1 +",
    "A <a> 1 +000",
    "A <a> 1 +00000",
    "A <a> 1 -0000",
    "A <a> 1 0000",
    "A <a> 1  +0000",
    "A <a> 1\t+0000",
    "A <a> 1 +00x0",
    "A <a> 1 +0000 ",
    "A<a> 1 +0000",
    "<a> 1 +0000",
    " <a> 1 +0000",
    "> 1 +0000",
    "A> <a> 1 +0000",
    "A <a<b> 1 +0000",
    "A <a>> 1 +0000",
    "A <a>1 +0000",
    "A <a>\t1 +0000",
    "A <a>  1 +0000",
    "A <a> \t 1 +0000",
    "A <a> -1 +0000",
    "A <a> +1 +0000",
    "A <a> x +0000",
    "A <> 1 +0000",
    "A <a> 0 +0000",
    "A <a> 00 +0000",
    "A <a> 01 +0000",
    "A <a> 0",
    "A <a> 0\t",
    "A <a> 1x +0000",
    "A <a> 9223372036854775806 +0000",
    "A <a> 9223372036854775807 +0000",
    "A <a> 9223372036854775808 +0000",
    "A <a> 18446744073709551615 +0000",
    "A <a> 18446744073709551616 +0000",
    "A <a> 99999999999999999999999999 x",
    "A <a> 1.5 +0000",
    "\u{e9} <\u{e9}> 1 +9999",
    "A <a> B <b> 1 +0000",
    "A <a> 1 +0000 x",
    "A <a>\r1 +0000",
    "A <a> 1 +0000\r",
];

/// Tags with every fault.
pub(super) fn tags(blob: &ObjectId) -> Vec<Vec<u8>> {
    let who = "tagger A U <a@b> 1 +0000\n";
    let object = format!("object {blob}\n");
    let head = format!("{object}type blob\n");
    let hex = &blob.to_string()[1..];
    let mut all = vec![
        String::new(),
        "\n".into(),
        object.clone(),
        head.clone(),
        format!("{head}tag a"),
        format!("{head}tag a\n"),
        format!("{head}tag a\n{who}"),
        format!("{head}tag a\n{who}\nx"),
        format!("{head}tag a\n\nx"),
        format!("{head}tag a\nx\n\ny"),
        format!("{head}tag a\n{who}x y\n"),
        format!("{head}tag a\n{who}x y\n\nz"),
        format!("{head}{who}"),
        format!("{head}tag\n{who}"),
        format!("type blob\ntag a\n{who}"),
        format!("object {hex}\ntype blob\ntag a\n{who}"),
        format!("object {blob} \ntype blob\ntag a\n{who}"),
        format!("{object}tag a\n{who}"),
        format!("{object}type\ntag a\n{who}"),
        format!("{object}type \ntag a\n{who}"),
        format!("{object}type blobs\ntag a\n{who}"),
        format!("{object}type tre\ntag a\n{who}"),
        format!("{object}type tree\ntag a\n{who}"),
        format!("{object}type commit\ntag a\n{who}"),
        format!("{object}type tag\ntag a\n{who}\n"),
        format!("{object}type blob \ntag a\n{who}"),
        format!("{head}tag a\n{who}\0"),
        format!("{head}tag a\0b\n{who}\n"),
        format!("{head}tag a\n{who}\nx\0y"),
        format!("{head}tag a\ntagger\n\nx"),
        format!("{head}tag a\n{who}{who}"),
    ];
    for name in [
        "", " ", "a b", "a..b", "a.lock", ".a", "a.", "a/b", "/a", "a/", "@", "@{", "a~", "a^",
        "a:", "a?", "a*", "a[", "a\\", "-", "a\u{7f}", "\u{e9}",
    ] {
        all.push(format!("{head}tag {name}\n{who}\nx"));
    }
    for person in PEOPLE {
        all.push(format!("{head}tag a\ntagger {person}\n\nx"));
    }
    all.into_iter().map(String::into_bytes).collect()
}
