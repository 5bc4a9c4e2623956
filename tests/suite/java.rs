//! Java reads no proxy variable and no PEM, and sends no proxy credentials: properties name a key store, and a port
//! that stands for the caller.

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
};

use oncegate_tests::{
    agent::Ask,
    binary::Build,
    conf::{BILLING_KEY, stripe_conf},
    sidecar::{Home, finish},
    wait::until,
};

use crate::shop::{REFUND, Shop, VARIED};

/// Asks as both of Java's own clients do, with nothing set up.
const CLIENT: &str = r#"
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class Refund {
    public static void main(String[] arguments) throws Exception {
        URI refunds = URI.create("https://api.stripe.com/v1/refunds");
        HttpRequest request = HttpRequest.newBuilder(refunds)
            .header("Content-Type", "application/x-www-form-urlencoded")
            .header("Authorization", "Bearer sk_test_placeholder")
            .POST(HttpRequest.BodyPublishers.ofString(arguments[0])).build();
        HttpResponse<String> answer =
            HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        System.out.println("HttpClient " + answer.statusCode());
        URI payment = URI.create("https://api.stripe.com/v1/payment_intents/pi_1");
        HttpURLConnection connection = (HttpURLConnection) payment.toURL().openConnection();
        System.out.println("HttpURLConnection " + connection.getResponseCode());
    }
}
"#;

/// The value of a property in JAVA_TOOL_OPTIONS.
fn property(options: &str, name: &str) -> String {
    let start = format!("-D{name}=");
    let found = options.split_whitespace().find_map(|option| option.strip_prefix(&start));
    found.unwrap_or_else(|| panic!("no {name} in {options}")).to_owned()
}

fn java_port(options: &str) -> SocketAddr {
    let property = |name: &str| property(options, name);
    assert_eq!(property("http.proxyPort"), property("https.proxyPort"));
    format!("{}:{}", property("https.proxyHost"), property("https.proxyPort")).parse().unwrap()
}

/// A command behind `oncegate run` that says its JAVA_TOOL_OPTIONS and lives until it is let go.
struct Held {
    child: Child,
    options: String,
}

impl Held {
    fn start(home: &Home) -> Held {
        let script = "echo \"$JAVA_TOOL_OPTIONS\"; read end";
        let mut command =
            home.command(Build::Plain, &["run", "--as", "billing-agent", "--", "sh", "-c", script]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut options = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut options).unwrap();
        Held { child, options }
    }

    /// Lets it end, and waits for it.
    fn end(mut self) {
        self.child.stdin.take().unwrap().write_all(b"\n").unwrap();
        let status = until("the command to end", || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}");
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn a_run_has_a_port_of_its_own_for_as_long_as_it_lives() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let (first, second) = (Held::start(&shop.home), Held::start(&shop.home));
    let (port, other) = (java_port(&first.options), java_port(&second.options));
    assert!(port.ip().is_loopback() && port != other && port != sidecar.proxy, "{port} {other}");
    let answer = sidecar.keyless(port).refund(None, REFUND);
    assert_eq!((answer.status, answer.outcome()), (200, "succeeded"), "{answer:?}");
    let same = sidecar.billing().refund(None, REFUND);
    assert_eq!(same.effect(), answer.effect(), "the same caller, and so the same refund");

    // What leads back to it is known as ours, as any other port of the proxy's.
    let looping = sidecar.billing().tunnel_to(&port.to_string(), "localhost").err().unwrap();
    looping.assert_refused(400, "oncegate_invalid_request");

    let mut open = sidecar.keyless(port).tunnel("api.stripe.com");
    first.end();
    until("the port to be closed", || TcpStream::connect(port).err());
    drop(open.send(&Ask::refund(VARIED).bytes("api.stripe.com")));
    // It ends with the run, in a moment of its own; what comes in between is refused.
    if let Ok(last) = open.answer() {
        assert_eq!(last.outcome(), "refused", "{last:?}");
    }
    assert_eq!(sidecar.keyless(other).refund(None, REFUND).status, 200, "the other run lives");
    assert_eq!(shop.writes(), 1);
    second.end();
    assert_eq!(sidecar.stop(), 0);
}

#[test]
fn no_port_is_opened_when_it_is_turned_off() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let script = "echo \"$JAVA_TOOL_OPTIONS\"";
    let args = ["run", "--as", "billing-agent", "--java-port", "off", "--", "sh", "-c", script];
    let done = finish(shop.home.command(Build::Plain, &args));
    assert_eq!(done.code, 0, "{done:?}");
    // Refused at the proxy, rather than around it.
    assert_eq!(java_port(&done.out), sidecar.proxy);
    let refused = sidecar.keyless(sidecar.proxy).tunnel_to("api.stripe.com:443", "api.stripe.com");
    assert_eq!(refused.err().unwrap().status, 407);
}

#[test]
fn env_names_a_caller_s_own_port_and_says_what_is_missing() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    assert_eq!(sidecar.stop(), 0);
    let text = stripe_conf(shop.provider.addr()).text();
    shop.home.write(&text.replacen("listen = \"127.0.0.1:0\"", "listen = \"127.0.0.1:18080\"", 1));
    let keyed = shop.home.run(&["env", "--as", "billing-agent", "--key", BILLING_KEY]);
    let last = keyed.out.lines().last().unwrap();
    assert!(keyed.out.contains("# Java sends no proxy credentials") && last.starts_with('#'), "{keyed:?}");
    let own = "[callers.billing-agent]\nlisten = \"127.0.0.1:18090\"";
    shop.home.write(&text.replace("[callers.billing-agent]", own));
    let bound = shop.home.run(&["env", "--as", "billing-agent", "--json"]);
    let options = bound.json()["JAVA_TOOL_OPTIONS"].as_str().unwrap().to_owned();
    assert_eq!(java_port(&options).port(), 18_090);
    let store = property(&options, "javax.net.ssl.trustStore");
    assert_eq!(store, shop.home.path("ca/truststore.p12").to_str().unwrap());
    let bound = shop.home.run(&["env", "--as", "billing-agent"]);
    assert!(!bound.out.contains('#'), "{bound:?}");
}

/// Where there is no Java, the tests above and the file's own (`oncegate-certs`) stand for it.
#[test]
fn the_clients_of_java_itself_work_with_no_change() {
    if !Command::new("java").arg("--version").output().is_ok_and(|done| done.status.success()) {
        eprintln!("no java here");
        return;
    }
    let shop = Shop::open();
    let text = stripe_conf(shop.provider.addr()).text();
    // A place that JAVA_TOOL_OPTIONS has to quote.
    shop.home.write(&text.replace("dir = \"ca\"", "dir = \"ca\"\ntrust_dir = \"for our/agent's\""));
    std::fs::write(shop.home.path("Refund.java"), CLIENT).unwrap();
    let done = shop.home.run(&["run", "--as", "billing-agent", "--", "java", "Refund.java", REFUND]);
    assert_eq!((done.code, done.out.as_str()), (0, "HttpClient 200\nHttpURLConnection 200\n"), "{done:?}");
    assert_eq!(shop.writes(), 1);
}
