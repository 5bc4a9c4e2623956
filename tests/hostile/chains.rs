//! Chains of certificates, good and bad ones, each with the root that a sidecar is told to trust.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints, date_time_ymd,
};
use rustls::{
    ServerConfig,
    crypto::ring::{default_provider, sign::any_supported_type},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};

/// One provider of the matrix.
pub(crate) struct Row {
    /// What is the matter with it.
    pub(crate) name: &'static str,
    /// Whether a request may go to it.
    pub(crate) good: bool,
    /// The host that it is declared as.
    pub(crate) host: String,
    /// The root that the host's `ca_file` holds.
    pub(crate) root: String,
    /// What it serves TLS with.
    pub(crate) tls: Arc<ServerConfig>,
}

/// Somebody who signs.
struct Signer {
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Signer {
    fn root(name: &str) -> Signer {
        let (key, params) = (KeyPair::generate().unwrap(), ca_params(name, 2));
        let der = params.self_signed(&key).unwrap().der().clone();
        Signer { der, issuer: Issuer::new(params, key) }
    }

    /// A signer below this one, an ordinary one but for what `change` makes of it.
    fn below(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Signer {
        let key = KeyPair::generate().unwrap();
        let mut params = ca_params(name, 0);
        change(&mut params);
        let der = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        Signer { der, issuer: Issuer::new(params, key) }
    }

    /// A server's certificate for a name, an ordinary one but for what `change` makes of it.
    fn leaf(&self, host: &str, change: impl FnOnce(&mut CertificateParams)) -> Leaf {
        self.leaf_of(KeyPair::generate().unwrap(), host, change)
    }

    fn leaf_of(&self, key: KeyPair, host: &str, change: impl FnOnce(&mut CertificateParams)) -> Leaf {
        let mut params = leaf_params(host);
        change(&mut params);
        Leaf { der: params.signed_by(&key, &self.issuer).unwrap().der().clone(), key }
    }

    fn pem(&self) -> String {
        pem(&self.der)
    }
}

struct Leaf {
    der: CertificateDer<'static>,
    key: KeyPair,
}

fn named(name: &str) -> DistinguishedName {
    let mut dn = DistinguishedName::new();
    dn.push(DnType::CommonName, name);
    dn
}

fn ca_params(name: &str, below: u8) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(below));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn leaf_params(host: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
    params.distinguished_name = named("a provider");
    params.is_ca = IsCa::ExplicitNoCa;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params
}

fn only_dns(permitted: &[&str], excluded: &[&str]) -> NameConstraints {
    let trees = |names: &[&str]| names.iter().map(|n| GeneralSubtree::DnsName((*n).to_owned())).collect();
    NameConstraints { permitted_subtrees: trees(permitted), excluded_subtrees: trees(excluded) }
}

/// Base64 in lines, as every reader of PEM takes it.
fn pem(der: &CertificateDer<'_>) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let text = STANDARD.encode(der.as_ref());
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|l| std::str::from_utf8(l).unwrap()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// Shows one chain to everybody, whether or not key and certificate belong together.
#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

fn serving(chain: Vec<CertificateDer<'static>>, key: &[u8]) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.to_vec()));
    let shown = Shown(Arc::new(CertifiedKey::new(chain, any_supported_type(&key).unwrap())));
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(shown));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

/// The rows as they are made, one authority for all of them.
struct Making {
    root: Signer,
    middle: Signer,
    rows: Vec<Row>,
}

impl Making {
    fn row(
        &mut self,
        name: &'static str,
        good: bool,
        make: impl FnOnce(&Making, &str) -> (Vec<CertificateDer<'static>>, KeyPair),
    ) {
        let host = format!("row-{}.trust.test", self.rows.len());
        let (chain, key) = make(self, &host);
        self.rows.push(Row {
            name,
            good,
            root: self.root.pem(),
            tls: serving(chain, &key.serialize_der()),
            host,
        });
    }

    /// A leaf of the intermediate, which is shown with it.
    fn usual(&mut self, name: &'static str, good: bool, change: impl FnOnce(&mut CertificateParams)) {
        self.row(name, good, |making, host| {
            let Leaf { der, key } = making.middle.leaf(host, change);
            (vec![der, making.middle.der.clone()], key)
        });
    }

    /// A leaf of an intermediate of its own.
    fn through(&mut self, name: &'static str, good: bool, change: impl FnOnce(&mut CertificateParams)) {
        self.row(name, good, |making, host| {
            let middle = making.root.below(name, change);
            let Leaf { der, key } = middle.leaf(host, |_| {});
            (vec![der, middle.der], key)
        });
    }
}

/// The whole matrix, made anew.
pub(crate) fn rows() -> Vec<Row> {
    let root = Signer::root("Root of the matrix");
    let middle = root.below("Intermediate of the matrix", |_| {});
    let mut making = Making { root, middle, rows: Vec::new() };
    leaves(&mut making);
    names(&mut making);
    intermediates(&mut making);
    orders(&mut making);
    making.rows.extend(kept());
    making.rows
}

fn leaves(making: &mut Making) {
    making.usual("good: through an intermediate", true, |_| {});
    making.row("good: straight from the root", true, |making, host| {
        let Leaf { der, key } = making.root.leaf(host, |_| {});
        (vec![der], key)
    });
    for (name, alg) in
        [("good: P-384", &rcgen::PKCS_ECDSA_P384_SHA384), ("good: Ed25519", &rcgen::PKCS_ED25519)]
    {
        making.row(name, true, |making, host| {
            let key = KeyPair::generate_for(alg).unwrap();
            let Leaf { der, key } = making.middle.leaf_of(key, host, |_| {});
            (vec![der, making.middle.der.clone()], key)
        });
    }
    making.usual("good: no extended usage at all", true, |leaf| leaf.extended_key_usages.clear());
    making.usual("expired", false, |leaf| leaf.not_after = date_time_ymd(2001, 1, 1));
    making.usual("not yet valid", false, |leaf| leaf.not_before = date_time_ymd(4000, 1, 1));
    making.usual("for clients only", false, |leaf| {
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    making.usual("for code signing only", false, |leaf| {
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
    });
    making.usual("an authority as a server", false, |leaf| {
        leaf.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    });
    making.usual("a critical extension that nobody knows", false, |leaf| {
        let mut unknown = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99_999, 1], vec![5, 0]);
        unknown.set_criticality(true);
        leaf.custom_extensions.push(unknown);
    });
}

fn names(making: &mut Making) {
    let san = |name: &str| vec![rcgen::SanType::DnsName(name.try_into().unwrap())];
    making.usual("good: a wildcard of one label", true, |leaf| leaf.subject_alt_names = san("*.trust.test"));
    making.row("good: in capitals", true, |making, host| {
        let Leaf { der, key } = making.middle.leaf(&host.to_uppercase(), |_| {});
        (vec![der, making.middle.der.clone()], key)
    });
    making.usual("for another host", false, |leaf| leaf.subject_alt_names = san("other.trust.test"));
    making.usual("for the domain above", false, |leaf| leaf.subject_alt_names = san("trust.test"));
    making.usual("a wildcard of two labels", false, |leaf| leaf.subject_alt_names = san("*.test"));
    making.usual("a bare wildcard", false, |leaf| leaf.subject_alt_names = san("*"));
    making.usual("a wildcard inside a label", false, |leaf| leaf.subject_alt_names = san("row-*.trust.test"));
    making.row("the name in the subject only", false, |making, host| {
        let Leaf { der, key } = making.middle.leaf(host, |leaf| {
            leaf.subject_alt_names.clear();
            leaf.distinguished_name = named(host);
        });
        (vec![der, making.middle.der.clone()], key)
    });
    making.row("the name before a zero byte", false, |making, host| {
        let Leaf { der, key } =
            making.middle.leaf(host, |leaf| leaf.subject_alt_names = san(&format!("{host}\0.evil.test")));
        (vec![der, making.middle.der.clone()], key)
    });
}

fn intermediates(making: &mut Making) {
    making.through("good: within the name constraints", true, |ca| {
        ca.name_constraints = Some(only_dns(&["trust.test"], &["evil.test"]));
    });
    making.through("outside the permitted names", false, |ca| {
        ca.name_constraints = Some(only_dns(&["elsewhere.test"], &[]));
    });
    making.through("among the excluded names", false, |ca| {
        ca.name_constraints = Some(only_dns(&[], &["trust.test"]));
    });
    making.through("the intermediate has expired", false, |ca| ca.not_after = date_time_ymd(2001, 1, 1));
    making
        .through("the intermediate is not yet valid", false, |ca| ca.not_before = date_time_ymd(4000, 1, 1));
    making.through("the intermediate is no authority", false, |ca| ca.is_ca = IsCa::ExplicitNoCa);
    making.through("the intermediate is for clients only", false, |ca| {
        ca.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    making.row("one intermediate more than the path may have", false, |making, host| {
        let last = making.middle.below("one too many", |_| {});
        let Leaf { der, key } = last.leaf(host, |_| {});
        (vec![der, last.der, making.middle.der.clone()], key)
    });
    making.row("signed by a server", false, |making, host| {
        let params = leaf_params(host);
        let key = KeyPair::generate().unwrap();
        let der = params.signed_by(&key, &making.middle.issuer).unwrap().der().clone();
        let server = Signer { der, issuer: Issuer::new(params, key) };
        let Leaf { der, key } = server.leaf(host, |_| {});
        (vec![der, server.der, making.middle.der.clone()], key)
    });
}

fn orders(making: &mut Making) {
    making.row("good: intermediates in any order, and one of no use", true, |making, host| {
        let first = making.root.below("first", |ca| ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(1)));
        let second = first.below("second", |_| {});
        let Leaf { der, key } = second.leaf(host, |_| {});
        (vec![der, first.der, making.middle.der.clone(), second.der], key)
    });
    making.row("the intermediate before the server", false, |making, host| {
        let Leaf { der, key } = making.middle.leaf(host, |_| {});
        (vec![making.middle.der.clone(), der], key)
    });
    making.row("the intermediate is missing", false, |making, host| {
        let Leaf { der, key } = making.middle.leaf(host, |_| {});
        (vec![der], key)
    });
    making.row("the intermediate's namesake signed it", false, |making, host| {
        let forged = Signer::root("elsewhere").below("Intermediate of the matrix", |_| {});
        let Leaf { der, key } = forged.leaf(host, |_| {});
        (vec![der, making.middle.der.clone()], key)
    });
    making.row("self-signed", false, |_, host| {
        let key = KeyPair::generate().unwrap();
        (vec![leaf_params(host).self_signed(&key).unwrap().der().clone()], key)
    });
    making.row("an authority that nobody trusts", false, |_, host| {
        let unknown = Signer::root("Root of the matrix");
        let Leaf { der, key } = unknown.leaf(host, |_| {});
        (vec![der, unknown.der], key)
    });
    making.row("somebody else's certificate without its key", false, |making, host| {
        let Leaf { der, .. } = making.middle.leaf(host, |_| {});
        (vec![der, making.middle.der.clone()], KeyPair::generate().unwrap())
    });
}

/// What the tests' own library cannot sign, made once with OpenSSL: see `weak/README.md`.
fn kept() -> Vec<Row> {
    const KEY: &str = include_str!("weak/leaf-key.pem");
    let row = |name, good, root: &str, leaf: &str| {
        let chain = CertificateDer::pem_slice_iter(leaf.as_bytes()).map(Result::unwrap).collect();
        let key = PrivatePkcs8KeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
        let tls = serving(chain, key.secret_pkcs8_der());
        Row { name, good, host: "weak.trust.test".into(), root: root.into(), tls }
    };
    macro_rules! pair {
        ($root:literal, $leaf:literal) => {
            (
                include_str!(concat!("weak/", $root, "-root.pem")),
                include_str!(concat!("weak/", $leaf, "-leaf.pem")),
            )
        };
    }
    let table = [
        ("good: RSA of 2048 bits, SHA-256", true, pair!("rsa2048-sha256", "rsa2048-sha256")),
        ("signed with RSA of 1024 bits", false, pair!("rsa1024-sha256", "rsa1024-sha256")),
        ("signed over SHA-1", false, pair!("rsa2048-sha1", "rsa2048-sha1")),
        ("signed over MD5", false, pair!("rsa2048-md5", "rsa2048-md5")),
        ("of version 1, and so without names", false, pair!("rsa2048-sha256", "rsa2048-sha256-v1")),
    ];
    table.into_iter().map(|(name, good, (root, leaf))| row(name, good, root, leaf)).collect()
}
