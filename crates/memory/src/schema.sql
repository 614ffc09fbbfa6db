
CREATE TABLE lesson (
    id INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL CHECK (kind IN (1, 2)),
    name TEXT NOT NULL,
    fingerprint INTEGER NOT NULL,
    value REAL NOT NULL,
    wordless INTEGER NOT NULL,
    quarantine TEXT,
    body TEXT NOT NULL,
    UNIQUE (kind, name)
) STRICT;
CREATE INDEX lesson_fingerprint ON lesson (kind, fingerprint);
CREATE INDEX lesson_value ON lesson (kind, value DESC, id);
CREATE INDEX lesson_wordless ON lesson (id) WHERE wordless = 1;
CREATE INDEX lesson_quarantine ON lesson (id) WHERE quarantine IS NOT NULL;
CREATE VIRTUAL TABLE lesson_words USING fts5 (
    happens, rest, content = '', contentless_delete = 1, tokenize = 'porter unicode61'
);
CREATE TABLE lesson_vectors (chunk INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
CREATE TABLE lesson_setting (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
