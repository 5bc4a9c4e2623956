//! Databases beside each other, and one under several names: each has one sidecar, and commands reach that one alone.

use std::{
    fs,
    io::{ErrorKind, Write},
    net::TcpListener,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    thread,
};

use oncegate_tests::{
    agent::Ask,
    binary::{Build, oncegate},
    conf::{Conf, OPS_KEY},
    provider::Provider,
    sidecar::{Done, Home, Sidecar, finish},
    wait::until,
};
use serde_json::Value;

use crate::{
    law::{call, data},
    shop::{DESK, TICKETS_PER_DAY, desk_conf, ticket, ticket_action},
};

/// A command on another configuration of the folder. It is told no address.
fn command(home: &Home, conf: &str, args: &[&str]) -> Command {
    let mut command = Command::new(oncegate(Build::Plain));
    command.arg("--config").arg(conf).args(args).current_dir(home.dir()).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home.dir()).stdin(Stdio::null());
    command.env("ONCEGATE_KEY", OPS_KEY);
    command
}

fn run(home: &Home, conf: &str, args: &[&str]) -> Done {
    finish(command(home, conf, args))
}

fn serve(home: &Home, conf: &str) -> Sidecar {
    home.launch(command(home, conf, &["serve"])).unwrap_or_else(|done| panic!("{done:?}"))
}

fn halted(sidecar: &Sidecar) -> Value {
    data(&call(sidecar, "ops", "GET", "/environment", ""))["halted"].clone()
}

/// Where a command that is run under a configuration would send what it sends.
fn behind(home: &Home, conf: &str) -> Done {
    run(home, conf, &["run", "--as", "billing-agent", "--", "sh", "-c", "echo \"$HTTPS_PROXY\""])
}

#[test]
fn p5_commands_reach_the_sidecar_of_their_own_database() {
    let provider = Provider::tls(&[DESK]);
    let conf = |database: &str, limit: &str| {
        let mut conf = Conf::default().host(DESK, provider.addr()).with(&ticket_action("open-ticket", DESK));
        conf.store = vec![format!("path = \"{database}\"")];
        conf.with(limit).text()
    };
    let home = Home::new(&desk_conf(provider.addr()));
    fs::write(home.path("a.toml"), conf("a.db", TICKETS_PER_DAY)).unwrap();
    fs::write(home.path("b.toml"), conf("b.db", "")).unwrap();
    let (a, b) = (serve(&home, "a.toml"), serve(&home, "b.toml"));
    for (conf, sidecar) in [("a.toml", &a), ("b.toml", &b)] {
        let told = behind(&home, conf);
        assert!(told.code == 0 && told.out.contains(&sidecar.proxy.to_string()), "{conf}: {told:?}");
    }
    assert_eq!(run(&home, "a.toml", &["halt", "--reason", "stop A"]).code, 0);
    assert_eq!((halted(&a), halted(&b)), (true.into(), false.into()));
    // The end of the one takes nothing away from the other.
    assert_eq!(b.stop(), 0);
    let told = behind(&home, "a.toml");
    assert!(told.code == 0 && told.out.contains(&a.proxy.to_string()), "{told:?}");
    assert_eq!(run(&home, "a.toml", &["resume"]).code, 0);
    assert_eq!(halted(&a), false);
    // Of the other, none runs, and no other one is asked in its place.
    let none = run(&home, "b.toml", &["halt", "--reason", "stop B"]);
    assert!(none.code == 2 && none.err.contains("no sidecar of this configuration runs"), "{none:?}");
    assert_eq!(halted(&a), false);
    // And whoever takes its port when it is dead is not shown the operator's key.
    let port = a.control;
    a.kill9();
    let taken = TcpListener::bind(port).unwrap();
    taken.set_nonblocking(true).unwrap();
    let dead = run(&home, "a.toml", &["halt", "--reason", "stop A"]);
    assert!(dead.code == 2 && dead.err.contains("ended without a word"), "{dead:?}");
    assert_eq!(taken.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn runs_that_start_at_once_have_one_sidecar() {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&desk_conf(provider.addr()));
    assert!(Command::new("mkfifo").arg(home.path("gate")).status().unwrap().success());
    // Each waits until all are there, as commands that take their time.
    let script = "touch \"here-$1\" && read -r _ < gate";
    let numbers = ["1", "2", "3"];
    let started = numbers.map(|number| {
        let args = ["run", "--as", "billing-agent", "--", "sh", "-c", script, "sh", number];
        let command = command(&home, "oncegate.toml", &args);
        thread::spawn(move || finish(command))
    });
    let here = |number: &&str| home.path(&format!("here-{number}")).exists();
    until("all commands to run", || {
        let ended = started.iter().any(thread::JoinHandle::is_finished);
        (ended || numbers.iter().all(here)).then_some(())
    });
    let running = numbers.iter().filter(|number| here(number)).count();
    // Held by both ends: none of them finds it closed, or before anybody is there.
    let mut gate = fs::File::options().read(true).write(true).open(home.path("gate")).unwrap();
    gate.write_all("\n".repeat(running).as_bytes()).unwrap();
    for run in started {
        let done = run.join().unwrap();
        assert_eq!(done.code, 0, "{done:?}");
    }
}

#[test]
fn p5_a_port_that_is_another_ones_now_is_not_asked() {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&desk_conf(provider.addr()));
    let b = home.serve();
    // Of a database beside it, which nobody serves: its configuration names the port that this one has.
    let mut named = desk_conf(provider.addr());
    named.store = vec!["path = \"a.db\"".into()];
    named.control = vec![format!("listen = \"{}\"", b.control)];
    fs::write(home.path("a.toml"), named.text()).unwrap();
    fs::write(home.path("a.db"), "").unwrap();
    let none = run(&home, "a.toml", &["halt", "--reason", "stop A"]);
    assert!(none.code == 2 && none.err.contains("none holds its database"), "{none:?}");
    assert_eq!(halted(&b), false);
}

/// The ordinary case: the same configuration twice, whose ports the first one has as well.
#[test]
fn a_second_sidecar_is_told_that_it_is_one() {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&desk_conf(provider.addr()));
    let sidecar = home.serve();
    let mut fixed = desk_conf(provider.addr());
    fixed.proxy = vec![format!("listen = \"{}\"", sidecar.proxy)];
    fixed.control = vec![format!("listen = \"{}\"", sidecar.control)];
    fs::write(home.path("fixed.toml"), fixed.text()).unwrap();
    let second = run(&home, "fixed.toml", &["serve"]);
    assert!(second.code == 2 && second.err.contains("another oncegate already runs on"), "{second:?}");
    assert_eq!(sidecar.stop(), 0);
    // A port that somebody else has is named, and leaves no database behind.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    fixed.proxy = vec![format!("listen = \"{}\"", taken.local_addr().unwrap())];
    fixed.store = vec!["path = \"new.db\"".into()];
    fs::write(home.path("fixed.toml"), fixed.text()).unwrap();
    let third = run(&home, "fixed.toml", &["serve"]);
    assert!(third.code == 2 && third.err.contains("the proxy cannot listen on"), "{third:?}");
    assert!(!home.path("new.db").exists());
}

/// Another folder, in which the database has another name.
fn other_name(provider: &Provider, of: &Path, name: impl Fn(&Path, &Path)) -> Home {
    let mut conf = desk_conf(provider.addr());
    conf.store = vec!["path = \"other.db\"".into()];
    let home = Home::new(&conf);
    name(of, &home.path("other.db"));
    home
}

#[test]
fn p3_a_database_has_one_sidecar_whatever_it_is_called() {
    let provider = Provider::tls(&[DESK]);
    let home = Home::new(&desk_conf(provider.addr()));
    let sidecar = home.serve();
    let database = home.path("oncegate.db");
    let linked = other_name(&provider, &database, |of, name| symlink(of, name).unwrap());
    let mut names = vec![linked];
    if cfg!(target_os = "linux") {
        names.push(other_name(&provider, &database, |of, name| fs::hard_link(of, name).unwrap()));
    }
    for other in &names {
        let Err(second) = other.try_serve(Build::Plain, &[]) else { panic!("served twice") };
        assert!(second.code == 2 && second.err.contains("another oncegate already runs on"), "{second:?}");
        let name = other.path("other.db").display().to_string();
        let halt = other.run(&["halt", "--db", &name, "--reason", "by another name"]);
        assert!(halt.code == 2 && halt.err.contains("another oncegate already runs on"), "{halt:?}");
    }
    // By the link it is found as well.
    let told = behind(&names[0], "oncegate.toml");
    assert!(told.code == 0 && told.out.contains(&sidecar.proxy.to_string()), "{told:?}");
    assert_eq!(sidecar.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket("a"))).status, 200);
    assert_eq!(sidecar.stop(), 0);
    // And one that nobody serves is served by any name.
    let again = names[0].serve();
    assert_eq!(again.billing().ask(DESK, &Ask::json("/v1/tickets", &ticket("b"))).status, 200);
}
