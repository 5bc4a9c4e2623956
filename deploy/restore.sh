#!/bin/sh
# Puts a backup in place of a database, HALTED: what was sent after the backup was taken is missing from it, so the
# same keys would run again. Read docs/deploy.md, "Backup and restore", before `oncegate resume`.
#
#   deploy/restore.sh [--older] BACKUP DATABASE
#
# BACKUP is a folder that backup.sh made. The sidecar must be stopped. The database that is in place, if there is one,
# is kept beside it. --older: also when that one is intact and knows more than the backup.
# Run it as the sidecar's user. `oncegate` (or $ONCEGATE_BIN) must be on the PATH, sqlite3 or python3, and flock.
set -eu
umask 077

older=no
if [ "${1:-}" = --older ]; then
    older=yes
    shift
fi
if [ $# -ne 2 ]; then
    echo "usage: $0 [--older] BACKUP DATABASE" >&2
    exit 2
fi
backup=$1
database=$2
oncegate=${ONCEGATE_BIN:-oncegate}

fail() {
    echo "restore: $*" >&2
    exit 1
}

# events FILE: how many events its chain has, if it is intact.
events() {
    "$oncegate" audit verify --db "$1" --json 2>/dev/null | tr -d ' \n' |
        sed -n 's/.*"events":\([0-9]*\).*/\1/p'
}

# intact FILE: whether its chain is. What cannot be told ends this: a file that a newer oncegate wrote is not a broken one.
intact() {
    verified=$("$oncegate" audit verify --db "$1" 2>&1) && return 0
    case $verified in
    *"use the newer oncegate"*) fail "$verified" ;;
    esac
    return 1
}

# fold FILE: what stands in its log goes into the file, so that the file alone is all of it.
fold() {
    if command -v sqlite3 >/dev/null 2>&1; then
        sqlite3 -batch "$1" 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
    elif command -v python3 >/dev/null 2>&1; then
        python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute("PRAGMA wal_checkpoint(TRUNCATE)")' "$1"
    else
        fail "neither sqlite3 nor python3 is here"
    fi
}

for file in oncegate.db backup.env SHA256SUMS; do
    [ -f "$backup/$file" ] || fail "$backup holds no $file: this is not a backup"
done
(cd "$backup" && sha256sum --check --quiet SHA256SUMS) || fail "the files of $backup are not what they were"
intact "$backup/oncegate.db" || fail "the evidence chain of $backup is broken: $verified"
taken_at=$(sed -n 's/^taken_at=//p' "$backup/backup.env")
[ -n "$taken_at" ] || fail "$backup/backup.env does not say when it was taken"

# Through a link it is the database itself that is replaced, and the lock beside it that the sidecar holds.
[ ! -L "$database" ] || database=$(readlink -f "$database")

# The sidecar holds this lock for life. It is held here until the end, so that none starts half-way.
exec 9>>"$database-lock"
flock --nonblock 9 || fail "a sidecar runs on $database: stop it first"

if [ -f "$database" ] && [ "$older" = no ] && intact "$database"; then
    here=$(events "$database")
    there=$(events "$backup/oncegate.db")
    if [ "$here" -gt "$there" ]; then
        fail "$database is intact and knows $here events, the backup $there: keep it, or say --older"
    fi
fi

# The copy is halted before it gets its name: no start, by hand or by a supervisor, finds it otherwise.
copy=$database.restoring
rm -f "$copy" "$copy-wal" "$copy-shm" "$copy-lock"
trap 'rm -f "$copy" "$copy-wal" "$copy-shm" "$copy-lock"' EXIT
cp "$backup/oncegate.db" "$copy"
"$oncegate" halt --db "$copy" --reason "restored from a backup of $taken_at; what was sent since is not known here" ||
    fail "the copy could not be halted"
fold "$copy" || fail "the log of the copy could not be folded into it"
[ ! -s "$copy-wal" ] || fail "the copy still has a log beside it"
sync "$copy" 2>/dev/null || sync

kept=$database.replaced-$(date -u +%Y%m%dT%H%M%SZ)
for suffix in "" -wal -shm; do
    [ ! -e "$database$suffix" ] || mv "$database$suffix" "$kept$suffix"
done
if [ "$(id -u)" = 0 ]; then
    chown "$(stat -c %u:%g "$(dirname "$database")")" "$copy" "$database-lock"
fi
mv "$copy" "$database"
sync "$(dirname "$database")" 2>/dev/null || sync

cat <<TEXT
$database is the backup of $taken_at, and all writes are halted.
$([ ! -f "$kept" ] || echo "The database that was in place is $kept: keep it, it may know what was sent.")

Whatever was sent after $taken_at is missing: no effect, no hold, no key of it is here, and the same request would be
sent again. Before \`oncegate resume\`:

  1. start the sidecar; it answers every write with "halted"
  2. list at each provider what was written since $taken_at
  3. settle what is unknown here:  oncegate effects --unresolved
  4. deny what waits for approval and was already sent:  oncegate approvals
  5. see to it that nobody asks again for what the list shows, and lower the limits by what it sums up to
TEXT
