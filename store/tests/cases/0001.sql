PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE run (
    key         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    started_at  INTEGER NOT NULL
) STRICT;
INSERT INTO run VALUES(1,'own_01ARZ3NDEKTSV4RR0000000001',1795953600000);
CREATE TABLE effect (
    key             INTEGER PRIMARY KEY,
    id              TEXT    NOT NULL UNIQUE CHECK (id GLOB 'eff_*'),
    invocation      TEXT    NOT NULL UNIQUE CHECK (invocation GLOB 'inv_*'),
    caller          TEXT    NOT NULL,
    action          TEXT    NOT NULL,
    listener        TEXT    NOT NULL,
    fingerprint     BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    caller_key      TEXT,
    declared_key    TEXT,
    subject         TEXT,
    resource        TEXT,
    dimension       TEXT,
    unit            TEXT,
    amount          INTEGER CHECK (amount >= 0),
    bound           TEXT    CHECK (bound IN ('exact', 'upper_bound')),
    provider_key    TEXT    NOT NULL,
    replay_until    INTEGER,
    can_read_back   INTEGER NOT NULL CHECK (can_read_back IN (0, 1)),
    target          TEXT    NOT NULL,
    request_digest  BLOB    NOT NULL CHECK (length(request_digest) = 32),
    retry_of        TEXT    REFERENCES effect (invocation),
    retried_by      TEXT    REFERENCES effect (invocation),
    compensates     TEXT    REFERENCES effect (id),
    drill           TEXT,
    created_at      INTEGER NOT NULL,
    -- Where it stands, and what is true only then.
    stage           TEXT    NOT NULL,
    approval        TEXT,
    expires_at      INTEGER,
    claimed_at      INTEGER,
    run             INTEGER REFERENCES run (key),
    unknown_since   INTEGER,
    next_look_at    INTEGER,
    looks           INTEGER NOT NULL DEFAULT 0 CHECK (looks >= 0),
    result          TEXT,
    verification    TEXT,
    settled_at      INTEGER,
    rejection       TEXT,
    rejection_code  TEXT,
    rejected_at     INTEGER,
    pruned_at       INTEGER,
    CHECK ((dimension IS NULL) = (unit IS NULL) AND (dimension IS NULL) = (bound IS NULL)),
    CHECK (dimension IS NOT NULL OR amount IS NULL),
    CHECK (retry_of IS NOT invocation AND retried_by IS NOT invocation AND compensates IS NOT id),
    CHECK (pruned_at IS NULL OR stage IN ('settled', 'rejected')),
    CHECK ((stage = 'dispatching') = (run IS NOT NULL)),
    CHECK (next_look_at IS NULL OR stage = 'reconciling'),
    CHECK ((stage = 'settled') = (result IS NOT NULL)
           AND (result IS NULL) = (verification IS NULL) AND (result IS NULL) = (settled_at IS NULL)),
    CHECK ((stage = 'rejected') = (rejection IS NOT NULL)
           AND (rejection IS NULL) = (rejected_at IS NULL)
           AND (rejection_code IS NOT NULL) = (rejection IS 'refused')),
    CHECK (CASE rejection WHEN 'refused' THEN 1 WHEN 'denied' THEN 1 WHEN 'expired' THEN 1 ELSE rejection IS NULL END),
    CHECK (CASE result
        WHEN 'confirmed'    THEN verification = 'provider'
        WHEN 'acknowledged' THEN verification IN ('unverified', 'manual')
        WHEN 'failed'       THEN verification = 'provider' OR verification IN ('unverified', 'manual')
        ELSE result IS NULL END),
    CHECK (CASE stage
        WHEN 'awaiting_approval' THEN approval IS NOT NULL AND expires_at IS NOT NULL AND claimed_at IS NULL
                                      AND unknown_since IS NULL
        WHEN 'ready'             THEN approval IS NOT NULL AND expires_at IS NULL AND claimed_at IS NULL
                                      AND unknown_since IS NULL
        WHEN 'dispatching'       THEN expires_at IS NULL AND claimed_at IS NOT NULL AND unknown_since IS NULL
        WHEN 'reconciling'       THEN expires_at IS NULL AND claimed_at IS NOT NULL AND unknown_since IS NOT NULL
        WHEN 'settled'           THEN expires_at IS NULL AND claimed_at IS NOT NULL
        WHEN 'rejected'          THEN expires_at IS NULL AND claimed_at IS NULL AND unknown_since IS NULL
        ELSE 0 END)
) STRICT;
INSERT INTO effect VALUES(1,'eff_01ARZ3NDEKTSV4RR0000000001','inv_01ARZ3NDEKTSV4RR0000000001','agent','refund','proxy',X'214bb9d04aa54a7cf8f364d4f1e07ff51ad9a802a06c0411f2acc9d3cead0869','refund:1',NULL,'pi_1','acct_1/pi_1','money','usd',600,'exact','oncegate-1',1796040000000,1,'POST https://api.stripe.com/v1/refunds',X'4d5b683ec853bf1fbf520a2ec43a06fa1fe9e4b6c5acce7c1e2598d340e3d90f',NULL,NULL,NULL,NULL,1795953600000,'settled',NULL,NULL,1795953600000,NULL,NULL,NULL,0,'acknowledged','unverified',1795953600000,NULL,NULL,NULL,NULL);
INSERT INTO effect VALUES(2,'eff_01ARZ3NDEKTSV4RR0000000002','inv_01ARZ3NDEKTSV4RR0000000002','agent','refund','proxy',X'394fbe5c011881ccd0f517aee0cfcb0fd57a8cf339431c93e5b4722053c43d54',NULL,NULL,'pi_2','acct_1/pi_2','money','usd',700,'exact','oncegate-2',1796040000000,1,'POST https://api.stripe.com/v1/refunds',X'7de94ab11f8b80e2a3551c54015ae7a275afcf8cd19eb00bac906a9f96c83024',NULL,NULL,NULL,NULL,1795953600000,'reconciling',NULL,NULL,1795953600000,NULL,1795953600000,1795953630000,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO effect VALUES(3,'eff_01ARZ3NDEKTSV4RR0000000003','inv_01ARZ3NDEKTSV4RR0000000003','agent','refund','proxy',X'6e2e475d95ba45935fa4b7ea48cfc458f5fecc362c9a3a4c3d93e05b86884272',NULL,NULL,'pi_3','acct_1/pi_3','money','usd',800,'exact','oncegate-3',1796040000000,1,'POST https://api.stripe.com/v1/refunds',X'c9399b666855fbdae831a271e75cd4c9a1c8e9029da13d7acd0b110e5bd50033',NULL,NULL,NULL,NULL,1795953600000,'settled',NULL,NULL,1795953600000,NULL,NULL,NULL,0,'failed','unverified',1795953600000,NULL,NULL,NULL,NULL);
INSERT INTO effect VALUES(4,'eff_01ARZ3NDEKTSV4RR0000000004','inv_01ARZ3NDEKTSV4RR0000000004','agent','refund','proxy',X'abe007ad939b996296bd378c11d6dc5b6c61eaef2f29171e0d29916ce4690714',NULL,NULL,'pi_4','acct_1/pi_4','money','usd',900,'exact','oncegate-4',1796040000000,1,'POST https://api.stripe.com/v1/refunds',X'ed756f4eff756c2fb38ea21ff792c699fc15997e549a837a85e473e4ca75852a',NULL,NULL,NULL,NULL,1795953600000,'awaiting_approval','apr_01M8KJT9G0K4FWE1R0GQJDB7RG',1796040000000,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO effect VALUES(5,'eff_01ARZ3NDEKTSV4RR0000000005','inv_01ARZ3NDEKTSV4RR0000000005','agent','refund','proxy',X'252b9b7ccc0ea2eec83d0b166dec0b670ba7523ba31c0df001d9eefa508376bc',NULL,NULL,'pi_5','acct_1/pi_5','money','usd',1000,'exact','oncegate-5',1796040000000,1,'POST https://api.stripe.com/v1/refunds',X'd32b232423e553990300dfee785c29e3df70770ed60c01c9d5a4c04683c4a2f9',NULL,NULL,NULL,NULL,1795953600000,'dispatching',NULL,NULL,1795953600000,1,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE request (
    effect   INTEGER PRIMARY KEY REFERENCES effect (key),
    method   TEXT NOT NULL,
    url      TEXT NOT NULL,
    headers  TEXT NOT NULL,
    memory   TEXT NOT NULL,
    body     BLOB NOT NULL
) STRICT;
INSERT INTO request VALUES(1,'POST','https://api.stripe.com/v1/refunds?expand=charge','[]','{"amount":600,"payment_intent":"pi_1"}',X'');
INSERT INTO request VALUES(2,'POST','https://api.stripe.com/v1/refunds?expand=charge','[["content-type","application/x-www-form-urlencoded"]]','{"amount":700,"payment_intent":"pi_2"}',X'7061796d656e745f696e74656e743d70695f3226616d6f756e743d373030266e6f74653d424f44594d41524b');
INSERT INTO request VALUES(4,'POST','https://api.stripe.com/v1/refunds?expand=charge','[["content-type","application/x-www-form-urlencoded"]]','{"amount":900,"payment_intent":"pi_4"}',X'7061796d656e745f696e74656e743d70695f3426616d6f756e743d393030266e6f74653d424f44594d41524b');
INSERT INTO request VALUES(5,'POST','https://api.stripe.com/v1/refunds?expand=charge','[["content-type","application/x-www-form-urlencoded"]]','{"amount":1000,"payment_intent":"pi_5"}',X'7061796d656e745f696e74656e743d70695f3526616d6f756e743d31303030266e6f74653d424f44594d41524b');
CREATE TABLE response (
    effect   INTEGER PRIMARY KEY REFERENCES effect (key),
    at       INTEGER NOT NULL,
    source   TEXT    NOT NULL CHECK (source = 'dispatch' OR source IN ('replay', 'read_back')),
    status   INTEGER NOT NULL CHECK (status BETWEEN 100 AND 999),
    reason   TEXT,
    headers  TEXT    NOT NULL,
    body     BLOB    NOT NULL
) STRICT;
INSERT INTO response VALUES(1,1795953600000,'dispatch',200,NULL,'[["content-type","application/json"],["request-id","req_1"]]',X'7b22737461747573223a3230307d');
INSERT INTO response VALUES(3,1795953600000,'dispatch',402,NULL,'[["content-type","application/json"],["request-id","req_1"]]',X'7b22737461747573223a3430327d');
CREATE TABLE dependency (
    effect     INTEGER NOT NULL REFERENCES effect (key),
    on_effect  INTEGER NOT NULL REFERENCES effect (key),
    outcome    TEXT    NOT NULL,
    PRIMARY KEY (effect, on_effect)
) STRICT, WITHOUT ROWID;
CREATE TABLE attempt (
    key         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE CHECK (id GLOB 'att_*'),
    effect      INTEGER NOT NULL REFERENCES effect (key),
    kind        TEXT    NOT NULL CHECK (kind = 'dispatch' OR kind IN ('replay', 'reconcile')),
    author      TEXT,
    run         INTEGER NOT NULL REFERENCES run (key),
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    verdict     TEXT CHECK (verdict = 'succeeded' OR verdict IN ('failed', 'unknown')),
    seen        TEXT CHECK (CASE seen WHEN 'answered' THEN 1 WHEN 'lost' THEN 1 WHEN 'not_sent' THEN 1
                                WHEN 'matched' THEN 1 WHEN 'provider_failed' THEN 1 WHEN 'no_match' THEN 1
                                WHEN 'unreadable' THEN 1 ELSE seen IS NULL END),
    step        TEXT,
    cause       TEXT,
    status      INTEGER,
    digest      BLOB,
    CHECK ((ended_at IS NULL) = (seen IS NULL)),
    CHECK (seen IS NOT NULL OR (verdict IS NULL AND step IS NULL AND cause IS NULL AND status IS NULL AND digest IS NULL)),
    CHECK ((kind = 'reconcile') = (verdict IS NULL) OR ended_at IS NULL)
) STRICT;
INSERT INTO attempt VALUES(1,'att_01ARZ3NDEKTSV4RR0000000001',1,'dispatch',NULL,1,1795953600000,1795953600000,'succeeded','answered',NULL,NULL,200,X'7cd85494eb375cc958155aca095fd0bae01e24f777c4ce4059e2edb82324618c');
INSERT INTO attempt VALUES(2,'att_01ARZ3NDEKTSV4RR0000000002',2,'dispatch',NULL,1,1795953600000,1795953600000,'unknown','lost','awaiting_head','connection reset',NULL,NULL);
INSERT INTO attempt VALUES(3,'att_01ARZ3NDEKTSV4RR0000000003',3,'dispatch',NULL,1,1795953600000,1795953600000,'failed','answered',NULL,NULL,402,X'a73a1d85b2980fa723789e2cb984993dff57aa1f3e9c3362db3da78336f157ee');
INSERT INTO attempt VALUES(4,'att_01ARZ3NDEKTSV4RR0000000005',5,'dispatch',NULL,1,1795953600000,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE impact_limit (
    key               INTEGER PRIMARY KEY,
    id                TEXT    NOT NULL UNIQUE CHECK (id GLOB 'lim_*'),
    name              TEXT    NOT NULL,
    dimension         TEXT    NOT NULL,
    unit              TEXT    NOT NULL,
    period            TEXT    NOT NULL CHECK (period IN ('day', 'month', 'total')),
    amount            INTEGER NOT NULL CHECK (amount >= 0),
    action            TEXT,
    resource_prefix   TEXT,
    reserved          INTEGER NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    unknown_exposure  INTEGER NOT NULL DEFAULT 0 CHECK (unknown_exposure >= 0),
    created_at        INTEGER NOT NULL,
    archived_at       INTEGER,
    CHECK (unknown_exposure <= reserved)
) STRICT;
INSERT INTO impact_limit VALUES(1,'lim_01M8KJT9G0346TJNEQYW07ZEKY','cap','money','usd','day',100000,NULL,NULL,1700,700,1795953600000,NULL);
CREATE TABLE consumption (
    limit_key     INTEGER NOT NULL REFERENCES impact_limit (key),
    period        TEXT    NOT NULL CHECK (period IN ('day', 'month', 'total')),
    period_start  INTEGER NOT NULL,
    amount        INTEGER NOT NULL CHECK (amount >= 0),
    PRIMARY KEY (limit_key, period, period_start)
) STRICT, WITHOUT ROWID;
INSERT INTO consumption VALUES(1,'day',1795910400000,600);
CREATE TABLE hold (
    key        INTEGER PRIMARY KEY,
    effect     INTEGER NOT NULL REFERENCES effect (key),
    limit_key  INTEGER NOT NULL REFERENCES impact_limit (key),
    amount     INTEGER NOT NULL CHECK (amount >= 0),
    state      TEXT    NOT NULL CHECK (state = 'held' OR state IN ('consumed', 'released')),
    consumed   INTEGER CHECK (consumed >= 0),
    ended_at   INTEGER,
    UNIQUE (effect, limit_key),
    CHECK ((state = 'held') = (ended_at IS NULL) AND (state = 'held') = (consumed IS NULL)),
    CHECK (state <> 'released' OR consumed = 0)
) STRICT;
INSERT INTO hold VALUES(1,1,1,600,'consumed',600,1795953600000);
INSERT INTO hold VALUES(2,2,1,700,'held',NULL,NULL);
INSERT INTO hold VALUES(3,3,1,800,'released',0,1795953600000);
INSERT INTO hold VALUES(4,5,1,1000,'held',NULL,NULL);
CREATE TABLE approval (
    key          INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE CHECK (id GLOB 'apr_*'),
    effect       INTEGER UNIQUE REFERENCES effect (key),
    caller       TEXT    NOT NULL,
    title        TEXT    NOT NULL,
    description  TEXT,
    payload      TEXT,
    asked_at     INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    status       TEXT    NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired')),
    decided_by   TEXT,
    decided_at   INTEGER,
    note         TEXT,
    CHECK ((status = 'pending') = (decided_at IS NULL)),
    CHECK ((status IN ('approved', 'denied')) = (decided_by IS NOT NULL)),
    -- Who asks does not decide.
    CHECK (decided_by IS NOT caller)
) STRICT;
INSERT INTO approval VALUES(1,'apr_01M8KJT9G0K4FWE1R0GQJDB7RG',4,'agent','refund: 900 usd',NULL,NULL,1795953600000,1796040000000,'pending',NULL,NULL,NULL);
CREATE TABLE halt (
    key        INTEGER PRIMARY KEY,
    reason     TEXT    NOT NULL,
    by         TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    lifted_by  TEXT,
    lifted_at  INTEGER,
    CHECK ((lifted_by IS NULL) = (lifted_at IS NULL))
) STRICT;
CREATE TABLE event (
    seq        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    effect     TEXT,
    stage      TEXT,
    author     TEXT,
    text       TEXT,
    detail     TEXT    NOT NULL CHECK (json_valid(detail)),
    prev_hash  BLOB    NOT NULL CHECK (length(prev_hash) = 32),
    hash       BLOB    NOT NULL CHECK (length(hash) = 32)
) STRICT;
INSERT INTO event VALUES(1,1795953600000,'limit_made',NULL,NULL,NULL,NULL,'{"action":null,"amount":100000,"dimension":"money","limit":"lim_01M8KJT9G0346TJNEQYW07ZEKY","name":"cap","period":"day","resource_prefix":null,"unit":"usd"}',X'0000000000000000000000000000000000000000000000000000000000000000',X'9aa47914bffedf2e888386d115118c4f474d5753de282b67bd1c1f08976e387f');
INSERT INTO event VALUES(2,1795953600000,'admitted','eff_01ARZ3NDEKTSV4RR0000000001','dispatching','agent',NULL,'{"action":"refund","amount":600,"fingerprint":"214bb9d04aa54a7cf8f364d4f1e07ff51ad9a802a06c0411f2acc9d3cead0869","invocation":"inv_01ARZ3NDEKTSV4RR0000000001","provider_key":"oncegate-1","request":"4d5b683ec853bf1fbf520a2ec43a06fa1fe9e4b6c5acce7c1e2598d340e3d90f","unit":"usd"}',X'9aa47914bffedf2e888386d115118c4f474d5753de282b67bd1c1f08976e387f',X'c1e98fd41910a755143ba0652c68b6a8fdfa11946b072925bcb84a912334753f');
INSERT INTO event VALUES(3,1795953600000,'answered','eff_01ARZ3NDEKTSV4RR0000000001','settled acknowledged unverified','provider','the provider answered 200','{"body":"7cd85494eb375cc958155aca095fd0bae01e24f777c4ce4059e2edb82324618c","status":200,"verdict":"succeeded"}',X'c1e98fd41910a755143ba0652c68b6a8fdfa11946b072925bcb84a912334753f',X'01ed77fd3b879918a69462e6d5db655707949375ef71df7660216eb5989019a5');
INSERT INTO event VALUES(4,1795953600000,'admitted','eff_01ARZ3NDEKTSV4RR0000000002','dispatching','agent',NULL,'{"action":"refund","amount":700,"fingerprint":"394fbe5c011881ccd0f517aee0cfcb0fd57a8cf339431c93e5b4722053c43d54","invocation":"inv_01ARZ3NDEKTSV4RR0000000002","provider_key":"oncegate-2","request":"7de94ab11f8b80e2a3551c54015ae7a275afcf8cd19eb00bac906a9f96c83024","unit":"usd"}',X'01ed77fd3b879918a69462e6d5db655707949375ef71df7660216eb5989019a5',X'e2745d92ef422e646c3f505831e5998d84bb01107cd616dbd4c42fbba6a78eb1');
INSERT INTO event VALUES(5,1795953600000,'lost','eff_01ARZ3NDEKTSV4RR0000000002','reconciling','dispatch','answer lost (awaiting_head): connection reset','{"phase":"awaiting_head","status":null,"verdict":"unknown"}',X'e2745d92ef422e646c3f505831e5998d84bb01107cd616dbd4c42fbba6a78eb1',X'8692befa19f722271c1fb4531e99ac4ec9a2a9c8d1dc9e91d513bb2aff3476d8');
INSERT INTO event VALUES(6,1795953600000,'admitted','eff_01ARZ3NDEKTSV4RR0000000003','dispatching','agent',NULL,'{"action":"refund","amount":800,"fingerprint":"6e2e475d95ba45935fa4b7ea48cfc458f5fecc362c9a3a4c3d93e05b86884272","invocation":"inv_01ARZ3NDEKTSV4RR0000000003","provider_key":"oncegate-3","request":"c9399b666855fbdae831a271e75cd4c9a1c8e9029da13d7acd0b110e5bd50033","unit":"usd"}',X'8692befa19f722271c1fb4531e99ac4ec9a2a9c8d1dc9e91d513bb2aff3476d8',X'303f6ea373b10c3cd30fc1e87073bf950444d0fb915f0d0e7e55c69b61a93a44');
INSERT INTO event VALUES(7,1795953600000,'answered','eff_01ARZ3NDEKTSV4RR0000000003','settled failed unverified','provider','the provider answered 402','{"body":"a73a1d85b2980fa723789e2cb984993dff57aa1f3e9c3362db3da78336f157ee","status":402,"verdict":"failed"}',X'303f6ea373b10c3cd30fc1e87073bf950444d0fb915f0d0e7e55c69b61a93a44',X'f07141abbcae54cbe70494e4d11e6b7b5998f2a6f86f7a21f3921c80dba9531e');
INSERT INTO event VALUES(8,1795953600000,'parked','eff_01ARZ3NDEKTSV4RR0000000004','awaiting_approval','agent',NULL,'{"action":"refund","amount":900,"fingerprint":"abe007ad939b996296bd378c11d6dc5b6c61eaef2f29171e0d29916ce4690714","invocation":"inv_01ARZ3NDEKTSV4RR0000000004","provider_key":"oncegate-4","request":"ed756f4eff756c2fb38ea21ff792c699fc15997e549a837a85e473e4ca75852a","unit":"usd"}',X'f07141abbcae54cbe70494e4d11e6b7b5998f2a6f86f7a21f3921c80dba9531e',X'7c28afe8fd959d551d66508837b2aa9a6332bab23d7d981a0fce609cc6370a87');
INSERT INTO event VALUES(9,1795953600000,'admitted','eff_01ARZ3NDEKTSV4RR0000000005','dispatching','agent',NULL,'{"action":"refund","amount":1000,"fingerprint":"252b9b7ccc0ea2eec83d0b166dec0b670ba7523ba31c0df001d9eefa508376bc","invocation":"inv_01ARZ3NDEKTSV4RR0000000005","provider_key":"oncegate-5","request":"d32b232423e553990300dfee785c29e3df70770ed60c01c9d5a4c04683c4a2f9","unit":"usd"}',X'7c28afe8fd959d551d66508837b2aa9a6332bab23d7d981a0fce609cc6370a87',X'35f97895e32e4d2cde6c2d92a61b18d18ce033ca7d55fc68a9cdc62b0cdd44e5');
CREATE TABLE chain_head (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    seq   INTEGER NOT NULL,
    hash  BLOB    NOT NULL CHECK (length(hash) = 32)
) STRICT;
INSERT INTO chain_head VALUES(1,9,X'35f97895e32e4d2cde6c2d92a61b18d18ce033ca7d55fc68a9cdc62b0cdd44e5');
CREATE UNIQUE INDEX effect_caller_key ON effect (caller, action, caller_key) WHERE caller_key IS NOT NULL;
CREATE INDEX effect_declared_key ON effect (action, declared_key) WHERE declared_key IS NOT NULL;
CREATE INDEX effect_fingerprint ON effect (fingerprint);
CREATE UNIQUE INDEX effect_retry_of ON effect (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX effect_retried_by ON effect (retried_by) WHERE retried_by IS NOT NULL;
CREATE INDEX effect_compensates ON effect (compensates) WHERE compensates IS NOT NULL;
CREATE INDEX effect_open ON effect (fingerprint) WHERE stage NOT IN ('settled', 'rejected');
CREATE INDEX effect_subject ON effect (action, subject)
    WHERE subject IS NOT NULL AND stage NOT IN ('settled', 'rejected');
CREATE INDEX effect_due ON effect (next_look_at) WHERE stage = 'reconciling' AND next_look_at IS NOT NULL;
CREATE INDEX effect_waiting ON effect (expires_at) WHERE stage = 'awaiting_approval';
CREATE INDEX effect_ready ON effect (created_at) WHERE stage = 'ready';
CREATE INDEX response_age ON response (at);
CREATE INDEX dependency_on ON dependency (on_effect);
CREATE INDEX attempt_effect ON attempt (effect);
CREATE INDEX attempt_open ON attempt (run) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX attempt_one_dispatch ON attempt (effect) WHERE kind = 'dispatch';
CREATE UNIQUE INDEX attempt_one_open_replay ON attempt (effect) WHERE kind = 'replay' AND ended_at IS NULL;
CREATE UNIQUE INDEX impact_limit_name ON impact_limit (name) WHERE archived_at IS NULL;
CREATE INDEX approval_pending ON approval (expires_at) WHERE status = 'pending';
CREATE UNIQUE INDEX halt_one ON halt ((1)) WHERE lifted_at IS NULL;
CREATE INDEX event_effect ON event (effect) WHERE effect IS NOT NULL;
CREATE TRIGGER effect_begins BEFORE INSERT ON effect
WHEN NEW.stage NOT IN ('awaiting_approval', 'dispatching')
BEGIN SELECT RAISE(ABORT, 'an effect begins as awaiting_approval or dispatching'); END;
CREATE TRIGGER effect_moves BEFORE UPDATE ON effect
WHEN NEW.stage IS NOT OLD.stage AND NOT CASE OLD.stage
    WHEN 'awaiting_approval' THEN NEW.stage IN ('ready', 'rejected')
    WHEN 'ready'             THEN NEW.stage IN ('dispatching', 'rejected')
    WHEN 'dispatching'       THEN NEW.stage IN ('reconciling', 'settled')
    WHEN 'reconciling'       THEN NEW.stage = 'settled'
    ELSE 0 END
BEGIN SELECT RAISE(ABORT, 'a stage never goes backwards'); END;
CREATE TRIGGER effect_ended BEFORE UPDATE ON effect
WHEN OLD.stage IN ('settled', 'rejected')
    AND (NEW.result IS NOT OLD.result OR NEW.verification IS NOT OLD.verification
         OR NEW.settled_at IS NOT OLD.settled_at OR NEW.rejection IS NOT OLD.rejection
         OR NEW.rejection_code IS NOT OLD.rejection_code OR NEW.rejected_at IS NOT OLD.rejected_at)
    AND NOT (OLD.result IS 'acknowledged' AND OLD.verification IS 'unverified' AND NEW.result IS 'confirmed'
             AND NEW.verification IS 'provider' AND NEW.settled_at IS OLD.settled_at)
BEGIN SELECT RAISE(ABORT, 'a settled effect does not change'); END;
CREATE TRIGGER effect_identity BEFORE UPDATE ON effect
WHEN NEW.key IS NOT OLD.key OR NEW.id IS NOT OLD.id OR NEW.invocation IS NOT OLD.invocation
    OR NEW.caller IS NOT OLD.caller OR NEW.action IS NOT OLD.action OR NEW.fingerprint IS NOT OLD.fingerprint
    OR NEW.caller_key IS NOT OLD.caller_key OR NEW.declared_key IS NOT OLD.declared_key
    OR NEW.provider_key IS NOT OLD.provider_key OR NEW.request_digest IS NOT OLD.request_digest
    OR NEW.amount IS NOT OLD.amount OR NEW.created_at IS NOT OLD.created_at OR NEW.retry_of IS NOT OLD.retry_of
    OR (OLD.retried_by IS NOT NULL AND NEW.retried_by IS NOT OLD.retried_by)
    OR (OLD.claimed_at IS NOT NULL AND NEW.claimed_at IS NOT OLD.claimed_at)
    OR (OLD.pruned_at IS NOT NULL AND NEW.pruned_at IS NOT OLD.pruned_at)
BEGIN SELECT RAISE(ABORT, 'what an effect is does not change'); END;
CREATE TRIGGER effect_stays BEFORE DELETE ON effect WHEN OLD.pruned_at IS NULL
BEGIN SELECT RAISE(ABORT, 'only a pruned effect may be removed'); END;
CREATE TRIGGER attempt_begins BEFORE INSERT ON attempt
WHEN NOT EXISTS (SELECT 1 FROM effect WHERE key = NEW.effect AND CASE NEW.kind
    WHEN 'dispatch' THEN stage = 'dispatching'
    WHEN 'replay'   THEN stage = 'reconciling'
    ELSE stage IN ('dispatching', 'reconciling', 'settled') END)
BEGIN SELECT RAISE(ABORT, 'no attempt in this stage'); END;
CREATE TRIGGER attempt_ends_once BEFORE UPDATE ON attempt
WHEN OLD.ended_at IS NOT NULL OR NEW.ended_at IS NULL OR NEW.key IS NOT OLD.key OR NEW.id IS NOT OLD.id
    OR NEW.effect IS NOT OLD.effect OR NEW.kind IS NOT OLD.kind OR NEW.author IS NOT OLD.author
    OR NEW.run IS NOT OLD.run OR NEW.started_at IS NOT OLD.started_at
BEGIN SELECT RAISE(ABORT, 'attempts are append-only'); END;
CREATE TRIGGER attempt_stays BEFORE DELETE ON attempt
WHEN EXISTS (SELECT 1 FROM effect WHERE key = OLD.effect AND pruned_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'attempts are append-only'); END;
CREATE TRIGGER impact_limit_stays BEFORE DELETE ON impact_limit
BEGIN SELECT RAISE(ABORT, 'a limit is archived, never removed'); END;
CREATE TRIGGER hold_begins BEFORE INSERT ON hold WHEN NEW.state <> 'held'
BEGIN SELECT RAISE(ABORT, 'a hold begins as held'); END;
CREATE TRIGGER hold_ends_once BEFORE UPDATE ON hold
WHEN OLD.state <> 'held' OR NEW.state = 'held' OR NEW.key IS NOT OLD.key OR NEW.effect IS NOT OLD.effect
    OR NEW.limit_key IS NOT OLD.limit_key OR NEW.amount IS NOT OLD.amount
BEGIN SELECT RAISE(ABORT, 'a hold ends once'); END;
CREATE TRIGGER hold_ends_with_its_effect BEFORE UPDATE ON hold
WHEN NOT EXISTS (SELECT 1 FROM effect WHERE key = OLD.effect AND stage = 'settled')
BEGIN SELECT RAISE(ABORT, 'a hold ends when its effect is settled'); END;
CREATE TRIGGER hold_stays BEFORE DELETE ON hold
WHEN EXISTS (SELECT 1 FROM effect WHERE key = OLD.effect AND pruned_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'holds are not removed'); END;
CREATE TRIGGER approval_decided_once BEFORE UPDATE ON approval
WHEN OLD.status <> 'pending' OR NEW.status = 'pending' OR NEW.effect IS NOT OLD.effect OR NEW.caller IS NOT OLD.caller
BEGIN SELECT RAISE(ABORT, 'an approval is decided once'); END;
CREATE TRIGGER event_fixed BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'evidence is append-only'); END;
CREATE TRIGGER event_stays BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'evidence is append-only'); END;
CREATE TRIGGER chain_head_grows BEFORE UPDATE ON chain_head WHEN NEW.seq <= OLD.seq
BEGIN SELECT RAISE(ABORT, 'the chain only grows'); END;
CREATE TRIGGER chain_head_stays BEFORE DELETE ON chain_head
BEGIN SELECT RAISE(ABORT, 'the chain only grows'); END;
CREATE VIEW unresolved (id, stage, action, subject, amount, unit, age_s, next_look_at, last_evidence) AS
SELECT id, stage, action, subject, amount, unit, max(0, unixepoch() - created_at / 1000),
    strftime('%Y-%m-%dT%H:%M:%SZ', next_look_at / 1000, 'unixepoch'),
    (SELECT event.text FROM event WHERE event.effect = effect.id AND event.text IS NOT NULL ORDER BY event.seq DESC LIMIT 1)
FROM effect
WHERE stage NOT IN ('settled', 'rejected');
CREATE VIEW exposure ("limit", dimension, unit, period, period_start, amount, consumed, reserved, unknown_exposure,
                      available) AS
SELECT name, dimension, unit, period, strftime('%Y-%m-%dT%H:%M:%SZ', start_s, 'unixepoch'), amount, consumed,
    reserved, unknown_exposure, amount - consumed - reserved
FROM (
    SELECT current.*, coalesce((SELECT used.amount FROM consumption AS used WHERE used.limit_key = current.key
        AND used.period = current.period AND used.period_start = current.start_s * 1000), 0) AS consumed
    FROM (
        SELECT *, CASE period
            WHEN 'day'   THEN unixepoch('now', 'start of day')
            WHEN 'month' THEN unixepoch('now', 'start of month')
            ELSE 0 END AS start_s
        FROM impact_limit WHERE archived_at IS NULL
    ) AS current
);
CREATE VIEW evidence (seq, at, effect, kind, author, text, detail) AS
SELECT seq, strftime('%Y-%m-%dT%H:%M:%SZ', at / 1000, 'unixepoch'), effect, kind, author, text, detail
FROM event WHERE text IS NOT NULL;
COMMIT;
