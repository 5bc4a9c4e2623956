//! Every input that is kept is fed once: what a fuzzer has found stays found, without a fuzzer.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use oncegate_fuzz::{TARGETS, amount, feed};

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

#[test]
fn what_is_kept_holds() {
    for (name, run) in TARGETS {
        let inputs: Vec<_> =
            fs::read_dir(corpora().join(name)).unwrap().map(|file| file.unwrap().path()).collect();
        assert!(!inputs.is_empty(), "{name}");
        inputs.iter().for_each(|input| feed(run, &fs::read(input).unwrap()));
    }
    let folders: BTreeSet<_> = fs::read_dir(corpora())
        .unwrap()
        .map(|folder| folder.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(folders, TARGETS.map(|(name, _)| name.to_owned()).into());
}

#[test]
fn a_reader_of_doubles_is_told_apart() {
    let large = b"\0{\"amount\":9007199254740993}";
    amount::run(large);
    let planted = std::panic::catch_unwind(|| amount::compare(large, true));
    assert!(planted.is_err());
}
