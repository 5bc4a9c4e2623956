//! The corpus: families of requests, read from `corpus/*.toml` and written out case by case.

use toml::{Table, Value};

use crate::asking::proxy_authorization;

const FILES: [(&str, &str); 4] = [
    ("framing", include_str!("corpus/framing.toml")),
    ("heads", include_str!("corpus/heads.toml")),
    ("matching", include_str!("corpus/matching.toml")),
    ("bodies", include_str!("corpus/bodies.toml")),
];

/// What is known of a case beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Nothing may reach the provider.
    Refused,
    /// Exactly one request has to.
    Sent,
    /// Either, if it has one reading.
    Either,
}

/// One request of the corpus, not yet written out.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Family and values.
    pub(crate) name: String,
    /// What has to come of it.
    pub(crate) expect: Expect,
    /// The tunnel's target; none where the bytes go to the proxy itself.
    pub(crate) connect: Option<String>,
    /// The name in the TLS inside.
    pub(crate) sni: String,
    template: String,
}

impl Case {
    /// Its bytes, under an id that no other case has.
    pub(crate) fn bytes(&self, id: &str) -> Vec<u8> {
        let text = self.template.replace("<id>", id).replace("<auth>", &proxy_authorization("billing-agent"));
        let bytes = raw(&text);
        let head = bytes.windows(4).position(|w| w == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
        replaced(&bytes, b"<length>", (bytes.len() - head).to_string().as_bytes())
    }
}

/// All cases of all files.
pub(crate) fn cases() -> Vec<Case> {
    let families = FILES.iter().flat_map(|(name, text)| {
        let mut file: Table = text.parse().unwrap_or_else(|e| panic!("{name}: {e}"));
        let Some(Value::Array(families)) = file.remove("family") else { panic!("no families in {name}") };
        families
    });
    families.flat_map(|family| written_out(family.as_table().unwrap())).collect()
}

fn written_out(family: &Table) -> Vec<Case> {
    let text = |name: &str| family.get(name).map(|value| value.as_str().unwrap().to_owned());
    let list = |name: &str| -> Vec<String> {
        let values = family.get(name).map_or(&[][..], |values| values.as_array().unwrap());
        values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    let expect = match text("expect").as_deref() {
        None => Expect::Either,
        Some("refused") => Expect::Refused,
        Some("sent") => Expect::Sent,
        Some(other) => panic!("no such expectation: {other}"),
    };
    let outer = family.get("outer").is_some_and(|outer| outer.as_bool().unwrap());
    let with = if family.contains_key("with") { list("with") } else { vec![String::new()] };
    let mut cases = Vec::new();
    for value in list("values") {
        for with in &with {
            let fill = |text: &str| text.replace("<value>", &value).replace("<with>", with);
            let name = format!("{}: {value:?} {with:?}", text("name").unwrap());
            let connect = text("connect").unwrap_or_else(|| "tickets.test:443".into());
            let sni = text("sni").unwrap_or_else(|| "tickets.test".into());
            cases.push(Case {
                name: name.chars().take(200).collect(),
                expect,
                connect: Some(fill(&connect)).filter(|_| !outer),
                sni: fill(&sni),
                template: fill(&text("raw").unwrap()).replace('\n', "\r\n"),
            });
        }
    }
    cases
}

/// `<xN:text>` repeated and `<hh>` as bytes.
fn raw(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at..];
        let inside = rest[1..].find('>').map(|end| &rest[1..=end]);
        let byte = inside.filter(|i| i.len() == 2).and_then(|i| u8::from_str_radix(i, 16).ok());
        let times = inside.and_then(|i| i.strip_prefix('x')?.split_once(':'));
        match (byte, times.and_then(|(n, what)| Some((n.parse::<usize>().ok()?, what)))) {
            (Some(byte), _) => out.push(byte),
            (None, Some((n, what))) => out.extend_from_slice(what.repeat(n).as_bytes()),
            (None, None) => {
                out.push(b'<');
                rest = &rest[1..];
                continue;
            }
        }
        rest = &rest[inside.unwrap().len() + 2..];
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

fn replaced(bytes: &[u8], what: &[u8], by: &[u8]) -> Vec<u8> {
    match bytes.windows(what.len()).position(|window| window == what) {
        Some(at) => [&bytes[..at], by, &bytes[at + what.len()..]].concat(),
        None => bytes.to_vec(),
    }
}
