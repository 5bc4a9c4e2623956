use std::fs;
use std::os::unix::fs::PermissionsExt;

use oncegate_config::Source;

use super::*;

const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const OTHER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const VALUE: &str = "sk_test_vault_2hV9";

async fn vault(dir: &Path, key: Option<&str>) -> Result<Vault, VaultError> {
    let text = match key {
        Some(key) => {
            fs::write(dir.join("key"), format!("{key}\n")).unwrap();
            "[vault]\nkey = { file = \"key\" }\n"
        }
        None => "",
    };
    let config = oncegate_config::parse(&[Source { name: "o.toml", text }]).unwrap().config;
    Vault::open(&config, dir).await
}

fn file(dir: &Path) -> String {
    fs::read_to_string(dir.join("managed/vault.json")).unwrap()
}

#[tokio::test]
async fn values_are_encrypted_each_time_anew_and_come_back_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let first = vault(dir.path(), Some(KEY)).await.unwrap();
    let put = first.put("A", VALUE, Timestamp(1)).unwrap();
    let text = file(dir.path());
    assert!(!text.contains(VALUE) && !text.contains(&STANDARD.encode(VALUE)), "{text}");
    assert_eq!(first.put("A", VALUE, Timestamp(2)).unwrap().created_at, put.created_at);
    assert_ne!(file(dir.path()), text);
    let mode = fs::metadata(dir.path().join("managed/vault.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let again = vault(dir.path(), Some(KEY)).await.unwrap();
    assert_eq!(again.get("A").unwrap().as_str(), VALUE);
    assert_eq!(again.times("A"), Some(Times { created_at: Timestamp(1), updated_at: Timestamp(2) }));
    assert!(matches!(again.get("B"), Err(SecretError::VaultEmpty(_))));
    assert!(again.remove("A").unwrap());
    assert!(!again.remove("A").unwrap());
    assert!(vault(dir.path(), Some(KEY)).await.unwrap().times("A").is_none());
}

#[tokio::test]
async fn another_key_or_none_is_a_clear_error_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    vault(dir.path(), Some(KEY)).await.unwrap().put("A", VALUE, Timestamp(1)).unwrap();
    let before = file(dir.path());
    assert!(matches!(vault(dir.path(), Some(OTHER)).await, Err(VaultError::WrongKey)));
    assert!(matches!(vault(dir.path(), None).await, Err(VaultError::NoKey)));
    for short in ["", "abcd", "c2hvcnQ=", "not a key at all, and long enough to be one: !!!"] {
        assert!(matches!(vault(dir.path(), Some(short)).await, Err(VaultError::Material)), "{short}");
    }
    assert_eq!(file(dir.path()), before);
    assert_eq!(vault(dir.path(), Some(KEY)).await.unwrap().get("A").unwrap().as_str(), VALUE);
}

#[tokio::test]
async fn a_value_that_is_passed_off_as_anothers_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let vault_now = vault(dir.path(), Some(KEY)).await.unwrap();
    vault_now.put("A", VALUE, Timestamp(1)).unwrap();
    fs::write(dir.path().join("managed/vault.json"), file(dir.path()).replace("\"A\"", "\"B\"")).unwrap();
    let moved = vault(dir.path(), Some(KEY)).await.unwrap();
    assert!(matches!(moved.get("B"), Err(SecretError::VaultSealed(_))));
}

#[tokio::test]
async fn what_was_put_before_there_was_a_key_is_encrypted_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    vault(dir.path(), None).await.unwrap().put("A", VALUE, Timestamp(1)).unwrap();
    assert!(file(dir.path()).contains(VALUE));
    let keyed = vault(dir.path(), Some(KEY)).await.unwrap();
    keyed.seal_what_is_not().unwrap();
    assert!(!file(dir.path()).contains(VALUE));
    assert_eq!(keyed.get("A").unwrap().as_str(), VALUE);
}

#[tokio::test]
async fn a_damaged_file_says_where_and_quotes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    vault(dir.path(), None).await.unwrap().put("A", VALUE, Timestamp(1)).unwrap();
    let text = file(dir.path()).replace("\"version\": 1", "\"version\": \"sk_test_vault_2hV9\"");
    fs::write(dir.path().join("managed/vault.json"), text).unwrap();
    let error = vault(dir.path(), None).await.err().unwrap();
    assert!(matches!(error, VaultError::Damaged { line: 2 }), "{error}");
    assert!(!crate::upstream::chain(&error).contains(VALUE));
}

#[tokio::test]
async fn a_new_value_takes_the_place_of_the_one_that_was_used_and_of_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let kept = vault(dir.path(), Some(KEY)).await.unwrap();
    assert!(!kept.renew("A", "old", "new", Timestamp(1)).unwrap(), "there is none");
    kept.put("A", "old\n", Timestamp(1)).unwrap();
    assert!(kept.renew("A", "old", "new", Timestamp(2)).unwrap());
    assert!(!kept.renew("A", "old", "late", Timestamp(3)).unwrap());
    assert_eq!(kept.get("A").unwrap().as_str(), "new");
    let times = kept.times("A").unwrap();
    assert_eq!((times.created_at, times.updated_at), (Timestamp(1), Timestamp(2)));
    let again = vault(dir.path(), Some(KEY)).await.unwrap();
    assert_eq!(again.get("A").unwrap().as_str(), "new");
}
