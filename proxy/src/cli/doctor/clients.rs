//! The clients that are looked for, and how each asks for a page: with its own means and without a retry. What they
//! write for themselves goes to a directory that is removed.

use super::python;

/// A client, and how it asks. In arguments and variables `{url}` is what it asks for, with a slash at its end, and
/// `{dir}` a directory of its own.
pub(super) struct Client {
    /// As it is named in the output.
    pub(super) name: &'static str,
    /// Looked for in PATH.
    pub(super) program: &'static str,
    /// What makes it say its version.
    pub(super) version: &'static [&'static str],
    pub(super) ask: &'static [&'static str],
    pub(super) env: &'static [(&'static str, &'static str)],
    /// A file in `{dir}`, and what is in it.
    pub(super) file: Option<(&'static str, &'static str)>,
    /// Settings of its own that are copied, because its directory is replaced.
    pub(super) settings: Option<Settings>,
    /// A module of Python that has to be there, and the distribution that says its version.
    pub(super) module: Option<(&'static str, &'static str)>,
    /// What helps if it does not come to the proxy.
    pub(super) to_use: &'static str,
    /// What helps if it does not trust it.
    pub(super) to_trust: &'static str,
}

/// A file of settings in a directory of the client's.
pub(super) struct Settings {
    /// Names the directory, if it is set.
    pub(super) variable: &'static str,
    /// Else it is this one of the user's.
    pub(super) folder: &'static str,
    pub(super) file: &'static str,
    /// The directory in `{dir}` that takes its place.
    pub(super) copy: &'static str,
}

/// What helps where nothing else is known.
pub(super) const OWN_SETTINGS: &str =
    "look for a setting of its own that counts more than HTTPS_PROXY, or redirect it (transparent_listen)";
const OWN_ROOTS: &str =
    "look for a setting of its own that counts more than the environment, and name bundle.pem there";

/// A client with nothing special.
pub(super) const PLAIN: Client = Client {
    name: "",
    program: "",
    version: &["--version"],
    ask: &[],
    env: &[],
    file: None,
    settings: None,
    module: None,
    to_use: OWN_SETTINGS,
    to_trust: OWN_ROOTS,
};

const NODE_USE: &str =
    "NODE_OPTIONS has to require shims/node/preload.cjs: something took it out, or this Node is too old";
const NODE_TRUST: &str = "NODE_EXTRA_CA_CERTS has to name ca.pem when Node starts";
const FETCH: &str = "fetch(process.argv[1]).then((answer) => answer.text(), (error) => { console.error(String(error.cause || error)); process.exit(1); })";
const HTTPS: &str = "require('node:https').get(process.argv[1], (answer) => answer.resume()).on('error', (error) => { console.error(String(error)); process.exit(1); })";

/// Compiled as it is started, by Java 11 and newer.
const JAVA: &str = r#"
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class OncegateProbe {
    public static void main(String[] arguments) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(arguments[0])).build();
        HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.discarding());
    }
}
"#;

static SYSTEM: [Client; 10] = [
    Client {
        name: "curl",
        program: "curl",
        ask: &["--silent", "--show-error", "--retry", "0", "{url}"],
        ..PLAIN
    },
    Client {
        name: "wget",
        program: "wget",
        ask: &["--no-verbose", "--tries=1", "--output-document=-", "{url}"],
        to_trust: "WGETRC has to name shims/wget/wgetrc; with a .wgetrc of your own, put its line `ca_certificate = …` there",
        ..PLAIN
    },
    Client {
        name: "git",
        program: "git",
        ask: &["ls-remote", "{url}probe.git"],
        env: &[("GIT_TERMINAL_PROMPT", "0")],
        to_use: "look for http.proxy in `git config --list --show-origin`: it counts more than HTTPS_PROXY",
        to_trust: "look for http.sslCAInfo in `git config --list --show-origin`: GIT_SSL_CAINFO has to be read",
        ..PLAIN
    },
    Client {
        name: "node fetch",
        program: "node",
        ask: &["--eval", FETCH, "{url}"],
        to_use: NODE_USE,
        to_trust: NODE_TRUST,
        ..PLAIN
    },
    Client {
        name: "node https",
        program: "node",
        ask: &["--eval", HTTPS, "{url}"],
        to_use: NODE_USE,
        to_trust: NODE_TRUST,
        ..PLAIN
    },
    Client {
        name: "npm",
        program: "npm",
        ask: &["ping", "--registry={url}", "--fetch-retries=0", "--cache={dir}/npm", "--no-update-notifier"],
        to_use: "look for proxy, https-proxy and noproxy in `npm config list`",
        to_trust: "look for cafile in `npm config list`: npm_config_cafile has to be read",
        ..PLAIN
    },
    Client {
        name: "java",
        program: "java",
        ask: &["{dir}/OncegateProbe.java", "{url}"],
        file: Some(("OncegateProbe.java", JAVA)),
        to_use: "JAVA_TOOL_OPTIONS has to be read when it starts; to be tried it has to be a JDK of Java 11 or newer",
        to_trust: "look for javax.net.ssl.trustStore: it has to name truststore.p12",
        ..PLAIN
    },
    Client {
        name: "go",
        program: "go",
        version: &["version"],
        ask: &["mod", "download", "example.com/oncegate@latest"],
        env: &[
            ("GO111MODULE", "on"),
            ("GOFLAGS", "-mod=mod"),
            ("GOPROXY", "{url}"),
            ("GONOSUMDB", "*"),
            ("GOTOOLCHAIN", "local"),
            ("GOMODCACHE", "{dir}/go"),
        ],
        ..PLAIN
    },
    Client {
        name: "cargo",
        program: "cargo",
        ask: &["search", "oncegate", "--index", "sparse+{url}"],
        env: &[("CARGO_NET_RETRY", "0"), ("CARGO_HOME", "{dir}/cargo")],
        settings: Some(Settings {
            variable: "CARGO_HOME",
            folder: ".cargo",
            file: "config.toml",
            copy: "cargo",
        }),
        to_use: "look for http.proxy in .cargo/config.toml: it counts more than HTTPS_PROXY",
        ..PLAIN
    },
    Client {
        name: "deno",
        program: "deno",
        ask: &["eval", "await (await fetch(Deno.args[0])).text()", "{url}"],
        to_trust: "DENO_CERT has to name bundle.pem",
        ..PLAIN
    },
];

/// Every client, in the order of the output.
pub(super) fn all() -> Vec<&'static Client> {
    SYSTEM.iter().chain(&python::LIBRARIES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_of_its_own_and_asks_for_what_it_is_given() {
        let all = all();
        let mut names: Vec<_> = all.iter().map(|client| client.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        for client in all {
            let texts = client.ask.iter().chain(client.env.iter().map(|(_, value)| value));
            assert!(texts.into_iter().any(|text| text.contains("{url}")), "{}", client.name);
        }
    }
}
