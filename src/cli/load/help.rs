//! What `packhouse load --help` says after its flags: the way from a URL to a report.

/// Examples, the format of a mix, and the exit statuses.
pub(super) const EXAMPLES: &str = "\
Examples:
  A server on this machine that creates repositories by push, such as packhouse serve:
    packhouse load 'http://127.0.0.1:8417/load-{repo}.git' --verify --report load.html

  Any other server whose repositories lie in /srv/git: make them first, look at them afterwards:
    packhouse load 'http://127.0.0.1/git/load-{repo}.git' \\
        --prepare /srv/git --verify --root /srv/git --report load.html

  32 people on one repository; everybody on one branch:
    packhouse load -n 32 http://127.0.0.1:8417/team.git
    packhouse load -n 32 --layout one-branch http://127.0.0.1:8417/team.git

  A fixed 500 pushes a second, whatever the server does (latency counts from when each was due):
    packhouse load -n 64 --rate 500 --duration 60 'http://127.0.0.1:8417/load-{repo}.git'

  Two servers in turns; one somewhere else, with a password:
    packhouse load 'http://127.0.0.1:8417/a-{repo}.git' --compare 'http://127.0.0.1:8080/a-{repo}.git'
    PACKHOUSE_LOAD_PASSWORD=… packhouse load --yes --user me https://git.example.org/load.git

  The ceiling of this program on this machine:
    packhouse load null-server & packhouse load 'http://127.0.0.1:8418/{repo}'

A mix is a TOML file of kinds with weights:
    [[push]]                      [[push]]
    weight = 8                    refs = 20          # one branch and 19 more refs
    blobs = 3                     atomic = true
    size = [200, '64k']           [[push]]
    thin = true                   delete = true      # the refs that others added
    texture = 'text'              [[fetch]]
                                  kind = 'clone'     # or fetch, ls-remote

Exit status:
    0  every push was acknowledged, and everything was found that was looked for
    1  pushes failed, or something acknowledged is not there
    2  the run could not be made: no server, no permission, no file; or --verify could not look
       at everything (what it could not is listed, and all that it did look at is there)
  129  the command line makes no sense
  130  ended by Ctrl-C (once: with a report; twice: at once)";
