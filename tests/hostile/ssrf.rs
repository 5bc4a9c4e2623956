//! Addresses that must not be reached: whatever an agent writes for this machine or its network, nothing there is
//! connected to, neither where undeclared hosts are refused nor where they are tunnelled, nor through a declared name.

use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use oncegate_tests::{agent::Ask, conf::Conf, sidecar::Home, wait::PATIENCE};

use crate::{
    asking::proxy_authorization,
    random::{Random, figure, mutations},
    spellings,
};

/// What somebody who listens where nobody should come says first.
const REACHED: &[u8] = b"REACHED";
/// The fewest spellings that the table may come down to.
const SPELLINGS_MIN: usize = 130;

/// Listens at one port of every address of this machine, and counts who comes.
struct Bank {
    port: u16,
    came: Arc<AtomicUsize>,
}

impl Bank {
    fn open() -> Bank {
        // Of both families at once, where there are two.
        let listener = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let came = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&came);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                count.fetch_add(1, SeqCst);
                drop(stream.write_all(REACHED));
            }
        });
        Bank { port, came }
    }

    fn came(&self) -> usize {
        self.came.load(SeqCst)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Connect,
    Absolute,
}

/// Asks a proxy for a spelling, and reads all that it says.
fn ask(proxy: SocketAddr, spelling: &str, port: u16, way: Way) -> Vec<u8> {
    let authorization = proxy_authorization("billing-agent");
    let line = match way {
        Way::Connect => format!("CONNECT {spelling}:{port}"),
        Way::Absolute => format!("GET http://{spelling}:{port}/"),
    };
    let mut stream = TcpStream::connect(proxy).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head =
        format!("{line} HTTP/1.1\r\nHost: {spelling}:{port}\r\nProxy-Authorization: {authorization}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    drop(stream.shutdown(Shutdown::Write));
    let mut said = Vec::new();
    // A reset ends it as well as a FIN does.
    drop(stream.read_to_end(&mut said));
    said
}

/// What is wrong about how a spelling was answered. `tried`: it is looked up, and may not be found.
fn judge(said: &[u8], tried: bool) -> Option<String> {
    let text = String::from_utf8_lossy(said);
    if text.contains("REACHED") {
        return Some("it was reached".into());
    }
    let refused = text.starts_with("HTTP/1.1 400 ")
        || text.starts_with("HTTP/1.1 403 ")
        || (tried && text.starts_with("HTTP/1.1 422 ") && text.contains("oncegate_not_sent"));
    let coded = text.to_ascii_lowercase().contains("\r\noncegate-code: oncegate_");
    (!refused || !coded).then(|| format!("not refused with a code: {text}"))
}

/// Tries every spelling in both ways; what went wrong, one line for each.
fn tried(proxy: SocketAddr, bank: &Bank, spellings: &[String], tunnels: bool) -> Vec<String> {
    let mut faults = Vec::new();
    for spelling in spellings {
        for way in [Way::Connect, Way::Absolute] {
            let before = bank.came();
            let said = ask(proxy, spelling, bank.port, way);
            let came = bank.came() - before;
            let fault = judge(&said, tunnels && way == Way::Connect);
            if came > 0 || fault.is_some() {
                faults.push(format!("{way:?} {spelling}: {came} came: {}", fault.unwrap_or_default()));
            }
        }
    }
    faults
}

fn machine() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "localhost.".into() } else { name.trim().to_owned() }
}

#[track_caller]
fn nothing_is_reached(undeclared: &str, spellings: &[String]) {
    let bank = Bank::open();
    let home = Home::new(&Conf::default().proxy(&format!("undeclared_hosts = \"{undeclared}\"")));
    let sidecar = home.serve();
    let faults = tried(sidecar.proxy, &bank, spellings, undeclared == "tunnel");
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), spellings.len() * 2, faults.join("\n"));
    assert_eq!(bank.came(), 0);
    figure(&format!(
        "addresses, undeclared hosts {undeclared}: {} spellings, two ways each",
        spellings.len()
    ));
}

#[test]
fn the_bank_counts() {
    let bank = Bank::open();
    for address in ["127.0.0.1", "127.0.0.2", "0.0.0.0"] {
        let mut stream = TcpStream::connect((address, bank.port)).unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
        assert_eq!(said, REACHED, "{address}");
    }
    assert_eq!(bank.came(), 3);
}

#[test]
fn no_spelling_is_reached_where_undeclared_hosts_are_refused() {
    let table = spellings::all(&machine());
    assert!(table.len() >= SPELLINGS_MIN, "only {}", table.len());
    nothing_is_reached("deny", &table);
}

#[test]
fn no_spelling_is_reached_through_a_blind_tunnel() {
    nothing_is_reached("tunnel", &spellings::all(&machine()));
}

/// Spellings of addresses drawn from the blocks that are not public: `ONCEGATE_MUTATIONS` of them.
#[test]
fn no_address_drawn_from_the_blocks_is_reached() {
    let mut random = Random::seeded();
    let drawn: Vec<String> = (0..mutations(200))
        .map(|_| {
            let all = spellings::of_v4(spellings::another(random.next()));
            all[random.below(all.len())].clone()
        })
        .collect();
    nothing_is_reached("tunnel", &drawn);
}

/// A declared name is dialled at public addresses only, unless its entry says otherwise.
#[test]
fn a_declared_name_does_not_lead_inside() {
    let bank = Bank::open();
    let port = bank.port;
    let hosts = [
        "127.0.0.1",
        "127.0.0.2",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "localhost",
        "10.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "[fe80::1]",
        "[fd00::2]",
        "224.0.0.1",
    ];
    let conf = hosts.iter().enumerate().fold(Conf::default(), |conf, (at, host)| {
        conf.with(&format!(
            "[hosts.\"{host}:{port}\"]\nplain = true\nwrites = \"allow\"\n[actions.note-{at}]\nmethod = \"POST\"\nurl = \"http://{host}:{port}/notes\"\n"
        ))
    });
    let home = Home::new(&conf);
    let sidecar = home.serve();
    for host in hosts {
        let authority = format!("{host}:{port}");
        let to = |path: &str| format!("http://{authority}{path}");
        for ask in [Ask::get(&to("/")), Ask::json(&to("/notes"), "{}"), Ask::json(&to("/free"), "{}")] {
            let answer = sidecar.billing().absolute(&authority, &ask).unwrap();
            answer.assert_own(422, "oncegate_not_sent");
        }
    }
    let ends = home.query("select verdict, seen, step from attempt");
    assert_eq!(ends.len(), hosts.len(), "{ends:?}");
    let refused = |row: &serde_json::Value| {
        row["verdict"] == "failed" && row["seen"] == "not_sent" && row["step"] == "address_refused"
    };
    assert!(ends.iter().all(refused), "{ends:?}");
    assert_eq!(bank.came(), 0);
}

/// The proxy's own port, in every spelling: answered at once, never dialled, so that nothing goes round for ever.
#[test]
fn the_proxy_does_not_come_back_to_itself() {
    for undeclared in ["deny", "tunnel"] {
        let home = Home::new(&Conf::default().proxy(&format!("undeclared_hosts = \"{undeclared}\"")));
        let sidecar = home.serve();
        let mut faults = Vec::new();
        for spelling in spellings::all(&machine()) {
            for way in [Way::Connect, Way::Absolute] {
                let said = ask(sidecar.proxy, &spelling, sidecar.proxy.port(), way);
                faults.extend(
                    judge(&said, undeclared == "tunnel" && way == Way::Connect)
                        .map(|f| format!("{way:?} {spelling}: {f}")),
                );
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}

/// A plain host that an operator has led back to the proxy itself: it is not gone round even once.
#[test]
fn a_host_that_leads_back_to_the_proxy_is_not_followed() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let host = format!("[hosts.\"round.test:80\"]\nplain = true\nconnect_to = \"127.0.0.1:{port}\"\n");
    let action = "[actions.round]\nmethod = \"POST\"\nurl = \"http://round.test/v1/notes\"\n";
    let conf = Conf::default().with(&host).with(action);
    let home = Home::new(&conf);
    home.write(&conf.text().replacen("127.0.0.1:0", &format!("127.0.0.1:{port}"), 1));
    let sidecar = home.serve();
    let agent = sidecar.billing();
    for ask in [Ask::get("http://round.test/v1/notes"), Ask::json("http://round.test/v1/notes", "{}")] {
        agent.absolute("round.test", &ask).unwrap().assert_own(422, "oncegate_not_sent");
    }
    let ends = home.query("select verdict, seen, step from attempt");
    assert_eq!((ends.len(), &ends[0]["step"]), (1, &"address_refused".into()), "{ends:?}");
}

/// The planted defect: a proxy that judges the text and dials what the system makes of it.
fn naive_proxy() -> SocketAddr {
    const BLOCKED: [&str; 7] = ["127.", "10.", "192.168.", "169.254.", "0.0.0.0", "localhost", "[::1]"];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut agent in listener.incoming().flatten() {
            let mut head = vec![0; 4096];
            let n = agent.read(&mut head).unwrap();
            let text = String::from_utf8_lossy(&head[..n]).into_owned();
            let target = text.split(' ').nth(1).unwrap_or_default().trim_start_matches("http://");
            let (host, port) = target.trim_end_matches('/').rsplit_once(':').unwrap();
            let dialled = if BLOCKED.iter().any(|start| host.starts_with(start)) {
                None
            } else {
                let name = host.trim_matches(['[', ']']);
                let found = (name, port.parse::<u16>().unwrap()).to_socket_addrs().ok();
                let here = found.and_then(|mut found| found.find(|at| at.ip().to_canonical().is_loopback()));
                here.and_then(|at| TcpStream::connect_timeout(&at, Duration::from_secs(5)).ok())
            };
            let Some(mut upstream) = dialled else {
                drop(agent.write_all(
                    b"HTTP/1.1 403 No\r\nOncegate-Code: oncegate_undeclared\r\nContent-Length: 0\r\n\r\n",
                ));
                continue;
            };
            drop(agent.write_all(b"HTTP/1.1 200 OK\r\n\r\n"));
            drop(std::io::copy(&mut upstream, &mut agent));
        }
    });
    at
}

#[test]
fn a_proxy_that_judges_the_text_is_caught() {
    let bank = Bank::open();
    let table: Vec<String> = spellings::of_v4(Ipv4Addr::LOCALHOST)
        .into_iter()
        .chain(["LOCALHOST", "localhost.", "[0:0:0:0:0:0:0:1]"].map(str::to_owned))
        .collect();
    let faults = tried(naive_proxy(), &bank, &table, true);
    let reached = faults.iter().filter(|fault| fault.contains("1 came")).count();
    assert!(reached >= 10 && bank.came() >= reached, "only {reached} of {}: {faults:?}", table.len() * 2);
}
