//! `oncegate doctor`: what it says of clients that are governed, and of stand-ins that are not.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    process::Command,
};

use oncegate_tests::{
    agent::Ask,
    binary::Build,
    conf::stripe_conf,
    sidecar::{Done, Home, finish},
};
use serde_json::{Value, json};

use crate::shop::Shop;

/// Goes where it likes, and is content.
const AROUND: &str = "#!/bin/sh\nexit 0\n";
/// Asks the proxy for the host of its last argument, and leaves before there is any TLS.
const UNTRUSTING: &str = r#"#!/bin/bash
PATH=/usr/bin:/bin
for url; do :; done
host=${url#https://}; host=${host%%/*}
rest=${HTTPS_PROXY#http://}; key=${rest%@*}; at=${rest#*@}
exec 3<>"/dev/tcp/${at%:*}/${at#*:}"
printf 'CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n' "$host" "$host" >&3
[ "$1" = --silent ] && printf 'Proxy-Authorization: Basic %s\r\n' "$(printf %s "$key" | base64 -w0)" >&3
printf '\r\n' >&3
read -r status <&3
echo "cannot verify the certificate, by key ${key#*:}" >&2
exit 60
"#;

/// A folder that stands for PATH.
struct Programs(PathBuf);

impl Programs {
    fn new(home: &Home) -> Programs {
        let folder = home.path("programs");
        fs::create_dir(&folder).unwrap();
        Programs(folder)
    }

    fn script(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The real Python, under its plain name.
    fn python(&self) {
        let mut ask = Command::new("python3");
        ask.args(["-c", "import sys; print(sys.executable)"]);
        symlink(finish(ask).out.trim(), self.0.join("python3")).unwrap();
    }

    fn doctor(&self, home: &Home, args: &[&str]) -> Done {
        let mut command =
            home.command(Build::Plain, &[&["doctor", "--as", "billing-agent", "--json"], args].concat());
        finish_with(command.env("PATH", &self.0))
    }
}

fn finish_with(command: &mut Command) -> Done {
    finish(std::mem::replace(command, Command::new("true")))
}

fn client<'a>(report: &'a Value, name: &str) -> &'a Value {
    let clients = report["clients"].as_array().unwrap();
    clients.iter().find(|client| client["client"] == name).unwrap_or_else(|| panic!("no {name} in {report}"))
}

fn check<'a>(report: &'a Value, name: &str) -> Vec<&'a Value> {
    report["checks"].as_array().unwrap().iter().filter(|check| check["check"] == name).collect()
}

#[test]
fn each_client_is_judged_by_how_far_it_came() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let programs = Programs::new(&shop.home);
    programs.script("curl", UNTRUSTING);
    programs.script("wget", UNTRUSTING);
    programs.script("git", AROUND);
    programs.script("java", "not a program");
    programs.python();
    let done = programs.doctor(&shop.home, &[]);
    let report = done.json();
    assert_eq!((done.code, &report["ok"]), (1, &json!(false)), "{done:?}");
    assert_eq!(report["sidecar"], json!(format!("runs at {}", sidecar.proxy)));
    let seen =
        |name: &str| (client(&report, name)["governed"] == true, client(&report, name)["seen"].clone());
    assert_eq!(seen("python3 urllib"), (true, json!("asked")), "{report}");
    assert_eq!(seen("curl"), (false, json!("connected")), "{report}");
    assert_eq!(seen("wget"), (false, json!("challenged")), "{report}");
    assert_eq!(seen("git"), (false, Value::Null), "{report}");
    assert_eq!(seen("java"), (false, Value::Null), "{report}");
    let text = |name: &str, key: &str| client(&report, name)[key].as_str().unwrap().to_owned();
    assert!(text("curl", "why").contains("does not trust"), "{report}");
    assert_eq!(text("curl", "said"), "cannot verify the certificate, by key …", "the key is not repeated");
    assert!(text("wget", "remedy").contains("listen"), "{report}");
    assert!(text("git", "why").contains("does not use the proxy"), "{report}");
    assert!(text("git", "remedy").contains("http.proxy"), "{report}");
    assert!(text("java", "why").contains("could not be tried"), "{report}");
    for name in ["npm", "node fetch", "deno"] {
        assert!(report["absent"].as_array().unwrap().contains(&json!(name)), "{report}");
    }
    assert!(!done.out.contains("ogr_"), "{}", done.out);
    assert_eq!((shop.provider.record().connections(), shop.home.effects().len()), (0, 0));
    assert_eq!(sidecar.stop(), 0);
}

#[test]
fn nothing_is_changed_where_no_sidecar_runs() {
    let shop = Shop::open();
    let programs = Programs::new(&shop.home);
    programs.python();
    let none = programs.doctor(&shop.home, &[]);
    let report = none.json();
    assert_eq!((none.code, report["clients"].as_array().unwrap().len()), (1, 0), "{none:?}");
    assert_eq!(check(&report, "ca")[0]["result"], "failed", "{report}");
    assert!(!shop.home.path("ca").exists() && !shop.home.path("oncegate.db").exists());

    assert_eq!(shop.home.serve().stop(), 0);
    let before = fs::metadata(shop.home.path("oncegate.db")).unwrap().modified().unwrap();
    let urllib = ["--client", "python3 urllib"];
    let well = programs.doctor(&shop.home, &urllib);
    assert_eq!((well.code, &well.json()["ok"]), (0, &json!(true)), "{well:?}");
    assert!(well.json()["sidecar"].as_str().unwrap().contains("started for this check"), "{well:?}");
    assert_eq!(fs::metadata(shop.home.path("oncegate.db")).unwrap().modified().unwrap(), before);
    assert_eq!(shop.provider.record().connections(), 0, "nobody looks at a provider");

    fs::set_permissions(shop.home.path("ca/ca.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let open = programs.doctor(&shop.home, &urllib);
    let report = open.json();
    assert_eq!((open.code, check(&report, "modes")[0]["result"].as_str()), (1, Some("failed")), "{open:?}");
    assert_eq!(check(&report, "sidecar")[0]["result"], "failed", "nothing starts with such a key");
    let unknown = programs.doctor(&shop.home, &["--client", "telnet"]);
    assert!(unknown.code == 2 && unknown.err.contains("python3 urllib"), "{unknown:?}");
}

#[test]
fn variables_that_lead_around_are_named() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let programs = Programs::new(&shop.home);
    // One that is not there: what is said of the variables needs none.
    let args = ["doctor", "--as", "billing-agent", "--json", "--client", "curl"];
    let told = |name: &str, value: &str| {
        let mut command = shop.home.command(Build::Plain, &args);
        let done = finish_with(command.env("PATH", &programs.0).env(name, value));
        assert_eq!(done.code, 0, "a run replaces them: {done:?}");
        check(&done.json(), "environment")[0]["said"].as_str().unwrap().to_owned()
    };
    for around in ["*", ".stripe.com", "localhost, api.stripe.com:443", "*.stripe.com"] {
        assert_eq!(told("NO_PROXY", around), "NO_PROXY leads around the proxy: api.stripe.com");
    }
    for none in ["127.0.0.1,localhost", "stripe.com.example", "pi.stripe.com", ""] {
        assert_eq!(told("no_proxy", none), "no variable here leads around the proxy", "{none}");
    }
    assert!(told("ALL_PROXY", "socks5://127.0.0.1:1").contains("ALL_PROXY"));
    assert!(told("NODE_TLS_REJECT_UNAUTHORIZED", "0").contains("any certificate"));
    assert_eq!(sidecar.stop(), 0);
}

/// Those that are here; the stand-ins above are for machines where none is.
#[track_caller]
fn all_governed(names: &[&str]) {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let args = names.iter().flat_map(|name| ["--client", name]);
    let args: Vec<_> = ["doctor", "--as", "billing-agent", "--json"].into_iter().chain(args).collect();
    let done = shop.home.run(&args);
    let report = done.json();
    let clients = report["clients"].as_array().unwrap();
    assert_eq!(clients.len() + report["absent"].as_array().unwrap().len(), names.len(), "{report}");
    assert!(clients.iter().all(|client| client["seen"] == "asked"), "{report}");
    assert_eq!(done.code, 0, "{report}");
    assert_eq!(sidecar.stop(), 0);
}

#[test]
fn the_real_clients_of_this_machine_are_governed() {
    all_governed(&["curl", "wget", "git", "node fetch", "node https", "python3 urllib"]);
}

/// By itself, since it compiles first.
#[test]
fn the_real_java_of_this_machine_is_governed() {
    all_governed(&["java"]);
}

#[test]
fn the_name_is_answered_to_callers_alone() {
    let shop = Shop::open_with(|at| stripe_conf(at).proxy("undeclared_hosts = \"tunnel\""));
    let sidecar = shop.home.serve();
    let agent = sidecar.billing();
    let ask = Ask::get("/");
    let name = "one.doctor.oncegate.invalid";
    let seen = |label: &str| {
        let ask = Ask::get(&format!("http://doctor.oncegate.invalid/{label}"));
        agent.absolute("doctor.oncegate.invalid", &ask).unwrap().json()["seen"].clone()
    };
    assert_eq!(seen("one"), Value::Null);
    assert_eq!(agent.ask(name, &ask).json(), json!({"oncegate": "doctor", "seen": "asked"}));
    assert_eq!(seen("one"), "asked", "also where other undeclared hosts are passed on");
    let stranger = agent.authorized(None);
    assert_eq!(stranger.tunnel_to("two.doctor.oncegate.invalid:443", name).err().unwrap().status, 407);
    assert_eq!(seen("two"), "challenged");
    let refused =
        stranger.absolute("doctor.oncegate.invalid", &Ask::get("http://doctor.oncegate.invalid/two"));
    assert_eq!(refused.unwrap().status, 407);
    assert_eq!(shop.home.effects().len(), 0);
}
