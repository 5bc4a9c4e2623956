#!/bin/sh
# Takes a copy of a database that may be in use, proves that it is whole, and puts it under DIRECTORY in a folder of its
# own, named by the moment. What the copy is good for, and what not: docs/deploy.md, "Backup and restore".
#
#   deploy/backup.sh DATABASE DIRECTORY
#
# Run it as the sidecar's user. `oncegate` (or $ONCEGATE_BIN) must be on the PATH, and sqlite3 or python3.
set -eu
umask 077

if [ $# -ne 2 ]; then
    echo "usage: $0 DATABASE DIRECTORY" >&2
    exit 2
fi
database=$1
directory=$2
oncegate=${ONCEGATE_BIN:-oncegate}

fail() {
    echo "backup: $*" >&2
    exit 1
}

# sql FILE STATEMENT: one statement on a database that is opened for reading only.
sql() {
    if command -v sqlite3 >/dev/null 2>&1; then
        sqlite3 -batch -readonly -cmd '.timeout 5000' "$1" "$2"
    elif command -v python3 >/dev/null 2>&1; then
        python3 - "$1" "$2" <<'PYTHON'
import pathlib, sqlite3, sys
uri = pathlib.Path(sys.argv[1]).absolute().as_uri() + "?mode=ro"
database = sqlite3.connect(uri, uri=True, timeout=5, isolation_level=None)
for row in database.execute(sys.argv[2]):
    print("|".join(str(value) for value in row))
PYTHON
    else
        fail "neither sqlite3 nor python3 is here"
    fi
}

# A path as it stands in a statement of SQL.
quoted() {
    printf "'%s'" "$(printf '%s' "$1" | sed "s/'/''/g")"
}

[ -f "$database" ] || fail "there is no database $database"
mkdir -p "$directory"
taken_at=$(date -u +%Y-%m-%dT%H:%M:%SZ)
place=$directory/oncegate-$(date -u +%Y%m%dT%H%M%SZ)
[ ! -e "$place" ] || fail "$place is there already"
# Under another name until it is whole: a folder that is named like a backup is one.
unfinished=$(mktemp -d "$directory/.unfinished-XXXXXX")
trap 'rm -rf "$unfinished"' EXIT

# One read transaction: the copy is the database as it was at one moment, whatever is written meanwhile.
sql "$database" "VACUUM INTO $(quoted "$unfinished/oncegate.db")" || fail "the copy could not be made"
"$oncegate" audit verify --db "$unfinished/oncegate.db" >"$unfinished/verified.txt" 2>&1 ||
    fail "the evidence chain of the copy is broken: $(cat "$unfinished/verified.txt")"
head=$(sql "$unfinished/oncegate.db" "SELECT seq || ' ' || lower(hex(hash)) FROM chain_head")
{
    echo "taken_at=$taken_at"
    echo "chain_events=${head% *}"
    echo "chain_hash=${head#* }"
} >"$unfinished/backup.env"
(cd "$unfinished" && sha256sum oncegate.db backup.env >SHA256SUMS)
# VACUUM INTO does not wait for the disk.
sync "$unfinished"/* "$unfinished" 2>/dev/null || sync
mv "$unfinished" "$place"
trap - EXIT
sync "$directory" 2>/dev/null || sync
echo "$place"
