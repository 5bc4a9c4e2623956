//! What a disk may forget.

use super::*;

/// A journal of one process: each call with its descriptor and what it wrote.
fn journal(calls: &[(i32, Call, &[u8])]) -> Journal {
    let (mut bytes, mut entries) = (Vec::new(), Vec::new());
    for (descriptor, call, data) in calls {
        let range = bytes.len()..bytes.len() + data.len();
        bytes.extend_from_slice(data);
        let call = if let Call::Write { offset, .. } = call {
            Call::Write { offset: *offset, data: range }
        } else {
            call.clone()
        };
        entries.push(Entry { process: 1, descriptor: *descriptor, number: 0, to_provider: false, call });
    }
    Journal::of(bytes, entries)
}

fn open(on: On) -> Call {
    Call::Open { on, made: true, emptied: false }
}

fn write(offset: usize) -> Call {
    Call::Write { offset, data: 0..0 }
}

/// The database in so many power cuts at the end.
fn cuts(journal: &Journal) -> Vec<Option<Vec<u8>>> {
    let mut disk = Disk::default();
    for entry in &journal.entries {
        disk.apply(entry, journal).unwrap();
    }
    let mut rng = Rng::new(7, 0);
    (0..2_000).map(|_| disk.cut(&mut rng, journal).files[Kept::Database.index()].take()).collect()
}

const DATABASE: On = On::File(Kept::Database);

#[test]
fn what_is_synced_is_there_and_what_is_not_may_be_torn() {
    let (old, new) = ([1; 1_024], [2; 1_024]);
    let synced = [
        (3, open(DATABASE), &[][..]),
        (3, write(0), &old),
        (3, Call::Sync, &[]),
        (4, open(On::Folder), &[]),
        (4, Call::Sync, &[]),
    ];
    assert!(cuts(&journal(&synced)).iter().all(|file| file.as_deref() == Some(&old[..])));
    let pending = [&synced[..], &[(3, write(0), &new)]].concat();
    let seen: std::collections::BTreeSet<(u8, u8)> = cuts(&journal(&pending))
        .into_iter()
        .map(|file| file.map(|file| (file[0], file[SECTOR])).unwrap())
        .collect();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [(1, 1), (1, 2), (2, 1), (2, 2)]);
}

#[test]
fn a_name_is_there_for_sure_when_its_folder_is_synced() {
    let made = [(3, open(DATABASE), &[][..]), (3, write(0), &[1; 10]), (3, Call::Sync, &[])];
    let files = cuts(&journal(&made));
    assert!(files.iter().any(Option::is_none), "the content is synced, the name is not");
    assert!(files.iter().any(Option::is_some));
    let synced = [&made[..], &[(4, open(On::Folder), &[]), (4, Call::Sync, &[])]].concat();
    assert!(cuts(&journal(&synced)).iter().all(Option::is_some));
    let removed = [&synced[..], &[(-1, Call::Unlink(Kept::Database), &[])]].concat();
    let files = cuts(&journal(&removed));
    assert!(files.iter().any(Option::is_none) && files.iter().any(Option::is_some));
}

#[test]
fn a_length_is_kept_or_not() {
    let shorter = [
        (3, open(DATABASE), &[][..]),
        (3, write(0), &[1; 1_024]),
        (3, Call::Sync, &[]),
        (4, open(On::Folder), &[]),
        (4, Call::Sync, &[]),
        (3, Call::Truncate { length: 512 }, &[]),
    ];
    let lengths: std::collections::BTreeSet<usize> =
        cuts(&journal(&shorter)).into_iter().map(|file| file.unwrap().len()).collect();
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [512, 1_024]);
}

#[test]
fn the_same_choice_has_the_same_mark() {
    let pending = [(3, open(DATABASE), &[][..]), (3, write(0), &[1; 4_096]), (3, write(4_096), &[2; 4_096])];
    let journal = journal(&pending);
    let mut disk = Disk::default();
    for entry in &journal.entries {
        disk.apply(entry, &journal).unwrap();
    }
    let mut files: HashMap<u64, [Option<Vec<u8>>; NAMES]> = HashMap::new();
    let mut rng = Rng::new(8, 0);
    for _ in 0..2_000 {
        let image = disk.cut(&mut rng, &journal);
        let before = files.entry(image.mark).or_insert_with(|| image.files.clone());
        assert_eq!(*before, image.files);
    }
    assert!(files.len() > 100);
}
