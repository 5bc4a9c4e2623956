//! Where the API listens and how it is protected.

use super::{config, faults};
use crate::model::{LogFormat, LogLevel, MetricsAccess};

#[test]
fn beyond_this_machine_only_with_tls() {
    for address in ["0.0.0.0:8081", "192.168.1.7:8081", "[::]:8081"] {
        let found = faults(&format!("[control]\nlisten = \"{address}\"\n"));
        let [fault] = found.as_slice() else { panic!("{found:?}") };
        assert!(fault.contains("t.toml:2:1: ") && fault.contains("it needs `tls = {"), "{fault}");
        let with =
            format!("[control]\nlisten = \"{address}\"\ntls = {{ cert = \"c.pem\", key = \"k.pem\" }}\n");
        let tls = config(&with).control.tls.unwrap();
        assert_eq!((tls.cert.to_str(), tls.key.to_str()), (Some("c.pem"), Some("k.pem")));
    }
    for address in ["127.0.0.1:8081", "[::1]:8081"] {
        assert_eq!(config(&format!("[control]\nlisten = \"{address}\"\n")).control.tls, None);
    }
    let half = faults("[control]\ntls = { cert = \"c.pem\" }\n");
    assert!(half.len() == 1 && half[0].contains("missing key `key`"), "{half:?}");
}

#[test]
fn metrics_are_open_on_this_machine_only() {
    assert_eq!(config("").control.metrics, MetricsAccess::Key);
    assert_eq!(config("[control]\nmetrics = \"open\"\n").control.metrics, MetricsAccess::Open);
    let tls = "tls = { cert = \"c.pem\", key = \"k.pem\" }";
    let found = faults(&format!("[control]\nlisten = \"0.0.0.0:1\"\n{tls}\nmetrics = \"open\"\n"));
    assert!(found.len() == 1 && found[0].contains("t.toml:4:1: "), "{found:?}");
}

#[test]
fn the_log() {
    let log = config("[log]\nformat = \"json\"\nlevel = \"debug\"\n").log;
    assert_eq!((log.format, log.level), (LogFormat::Json, Some(LogLevel::Debug)));
    assert_eq!((config("").log.format, config("").log.level), (LogFormat::Text, None));
    let found = faults("[log]\nlevel = \"inof\"\n");
    assert!(found[0].contains("info"), "{found:?}");
    assert!(LogLevel::ALL.iter().all(|(word, level)| level.word() == *word));
}
