//! The pages: what the help of a command says beside its options. Only words stand here.

use ftl_command::Page;

/// The page of the program itself.
pub(crate) const MAIN: Page = Page {
    command: "ftl",
    more: "A protocol is a Markdown document that a person reads and `ftl` executes. Its diagram cannot disagree \
            with its behaviour, because `ftl` checks one against the other.",
    examples: &[
        "ftl \"fix the failing test\"     one task: explore, plan, build, verify, land",
        "ftl campaign \"add a login\"     many tasks in a graph, each verified and landed by itself",
        "ftl code \"export as CSV\"       one story: planned, reviewed, coded, tested, reviewed, merged",
        "ftl status                     list runs: where each stands, what it spent, what it waits for",
        "ftl why k3v9                   explain the state of a run, and what you can do",
        "ftl diff k3v9/002              show the changes of the task 002",
    ],
    last: "Exit codes: 0 done, 1 error, 2 usage, 3 blocked or held, 4 refused, 5 not allowed here, \
            6 malformed, 130 interrupted.",
};

/// The pages of its commands, but those of the FTL protocol's own.
pub(crate) const PAGES: &[Page] = &[
    Page {
        command: "task",
        more: "Takes one objective from words to a commit: explores the repository, has a plan made, builds and \
            verifies it on a branch of its own, and asks how it should land.",
        examples: &[
            "ftl \"fix the failing test\"                     the short form of `ftl task run`",
            "ftl task run fix --plan plan.json              with a plan of your own",
            "ftl \"fix the failing test\" --dry-run           explore and plan, and build nothing",
        ],
        last: "An objective with white space needs no `task run`.",
    },
    Page {
        command: "campaign",
        more: "`run`, or an objective with white space, takes an objective to verified commits: explores, has a \
            graph of tasks planned, builds them side by side and lands them one by one. Every other word is about \
            the one current campaign and prints JSON or one line for scripts. The store is the truth; \
            `.ftl/campaign.json` is its copy.",
        examples: &[
            "ftl campaign \"add a login\"",
            "ftl campaign run \"add a login\" --plan plan.json --jobs 4",
            "ftl campaign create \"add login\" --framework fastapi",
            "ftl campaign add-tasks < plan.json",
            "ftl campaign ready-tasks | jq -r '.[].seq'",
            "ftl campaign update-task 001 complete",
        ],
        last: "An unknown task or status, a plan that does not validate and a missing campaign end with 1.",
    },
    Page {
        command: "code",
        more: "Takes one story from words to a merge: a coder plans, an architect reviews the plan, the coder writes, \
            `ftl` tests, the architect reviews exactly that tree, and `ftl` merges it. With --from the architect makes \
            stories of a document, and coders work on them side by side.",
        examples: &[
            "ftl code \"export the table as CSV\"        one story",
            "ftl code --from spec.md --dry-run          the stories of a document, and nothing coded",
            "ftl code --from spec.md --coders 3         all of them, three agents at the same time",
        ],
        last: "Bind [roles] coder and architect in ftl.toml, best to two different models. docs/coding.md tells the rest.",
    },
    Page {
        command: "run",
        more: "Opens a run of a protocol and drives it until it has ended, is held, or waits for a person. Every \
            step is in the journal before it is done: kill it whenever you like, `ftl resume` goes on.",
        examples: &[
            "ftl run mine objective=\"fix the bug\"       a protocol of .ftl/protocols/, with an input",
            "ftl run mine --script rehearsal.toml       agents and actions answer from a file",
            "ftl run mine --json | jq -r .standing",
        ],
        last: "Exit code 0 complete; 3 blocked, escalated, held or waiting for a person; 1 error; 130 interrupted.",
    },
    Page {
        command: "resume",
        more: "Takes over runs that nobody drives, because their process was killed or stopped. What was being \
            done is asked again under the same id. A run that is held is asked again where it is held.",
        examples: &[
            "ftl resume              everything that can go on by itself and that nobody drives, side by side",
            "ftl resume k3v9         one run, also where it is held",
        ],
        last: "A run that is named and that another process drives is watched until it rests.",
    },
    Page {
        command: "retry",
        more: "Opens a new run for the blocked tasks of one that has ended, and for what waited for them. Each is told why \
            it was blocked, and begins from the work that was kept of it.",
        examples: &[
            "ftl retry k3v9                every blocked task of a run",
            "ftl retry k3v9 002 004        two of them, and what waited for them",
            "ftl retry k3v9 002 --fresh    without the work that was kept",
        ],
        last: "`ftl why k3v9/002` tells why a task was blocked, `ftl diff k3v9/002` what was kept of it.",
    },
    Page {
        command: "clean",
        more: "Lists branches, kept work and worktrees of ended runs that nobody needs: merged, old or empty. Nothing is \
            taken away without --yes, and what was taken away can be brought back for seven days.",
        examples: &[
            "ftl clean                     what could go, and how much that is",
            "ftl clean --yes               take it away",
            "ftl clean --undo              bring back what was taken away last",
        ],
        last: "`ftl salvage` lists the work that is kept.",
    },
    Page {
        command: "stop",
        more: "Ends a run, or one instance and what it opened. What was done stays; nothing is deleted.",
        examples: &["ftl stop k3v9 --reason \"wrong branch\"", "ftl stop k3v9/4"],
        last: "To pause instead, interrupt the process that drives it (Ctrl-C); `ftl resume` goes on.",
    },
    Page {
        command: "status",
        more: "",
        examples: &[
            "ftl status",
            "ftl status k3v9",
            "ftl status --json | jq -r '.runs[] | [.run, .standing] | @tsv'",
        ],
        last: "",
    },
    Page {
        command: "why",
        more: "For each line of work: why it stands where it stands, and every way out of there: open, or what it \
            still needs.",
        examples: &["ftl why k3v9", "ftl why k3v9/4 --json"],
        last: "",
    },
    Page {
        command: "log",
        more: "Shows states, verdicts and what people said, a line each, and counts the entries between them.",
        examples: &[
            "ftl log k3v9                   how a run came to where it is",
            "ftl log k3v9 --all             a line for each entry of the journal",
            "ftl log k3v9 --follow          go on until it has ended",
            "ftl log k3v9 --json | jq -c 'select(.fact == \"moved\")'",
        ],
        last: "With --json it gives every entry, one a line.",
    },
    Page {
        command: "transcript",
        more: "Reads the conversations that a run had with its agents: what each said, which tools it called, how each \
            call was ruled on and what it brought, what it used and how it ended. Also of a run that goes on, or that \
            was killed.",
        examples: &[
            "ftl transcript k3v9            all agents of a run",
            "ftl transcript k3v9/002        those that worked on the task 002 of its plan",
            "ftl transcript k3v9 --follow   until the run has ended",
            "ftl transcript k3v9 --json | jq -c 'select(.ruling == \"deny\")'",
        ],
        last: "With --json each line is one JSON document. Keys are hidden here as everywhere.",
    },
    Page {
        command: "diff",
        more: "Shows what a run brought to its branch, against the commit that it began from; where nothing has landed, \
            what is kept or stands in worktrees. For a task: its own commit, or its kept work.",
        examples: &[
            "ftl diff k3v9                  everything that has landed",
            "ftl diff k3v9/002              the task 002 of its plan",
            "ftl diff k3v9 --stat           how many lines of which files",
            "ftl diff k3v9/002 | git apply  take it over into your checkout",
        ],
        last: "No external diff, filter or textconv of the repository is started. On a terminal a long patch is shown \
            through $PAGER.",
    },
    Page {
        command: "watch",
        more: "On a terminal the board of every run that goes on, as its driver shows it: its tasks or steps, what it \
            waits for, what it spent. Elsewhere a line for each entry as it comes, with `--json` as JSON.",
        examples: &[
            "ftl watch                      every run, until Ctrl-C",
            "ftl watch k3v9                 one run, until it has ended",
            "ftl watch --json | jq -c 'select(.fact == \"held\")'",
        ],
        last: "It only reads; to pause a run, interrupt the process that drives it.",
    },
    Page {
        command: "answer",
        more: "Answers the question that a run asks, or says one of the words that it waits for.",
        examples: &[
            "ftl answer k3v9 yes",
            "ftl answer k3v9/4 - < answer.json",
            "ftl answer k3v9 red --question 12.0    one of several questions that are open",
        ],
        last: "Refused from inside an agent's process tree.",
    },
    Page {
        command: "override",
        more: "Takes a declared edge although its conditions do not hold. It never invents an edge, and the record \
            says who and why.",
        examples: &["ftl override k3v9 CODING --reason \"reviewed by hand\""],
        last: "Refused from inside an agent's process tree.",
    },
    Page {
        command: "raise",
        more: "Sets a limit higher; instances that are held for it go on.",
        examples: &[
            "ftl raise k3v9 tokens 8M --reason \"worth it\"",
            "ftl raise k3v9/2 rounds 30 --reason \"nearly there\"",
        ],
        last: "Refused from inside an agent's process tree.",
    },
    Page {
        command: "undo",
        more: "Takes the newest delivery back: your branch, your index and the files it changed go to where they were. \
            Changes of yours in other files stay. If you have committed since, or have changed one of those files, \
            nothing is moved. What was delivered stays under a ref, and the answer says how to get it back.",
        examples: &["ftl undo                       what was delivered last", "ftl undo k3v9"],
        last: "Exit code 4 if it would cost you anything. Refused from inside an agent's process tree.",
    },
    Page {
        command: "salvage",
        more: "Before a worktree is removed, everything that exists only there is kept. This lists it, and brings it \
            back without touching your checkout; it stays kept.",
        examples: &[
            "ftl salvage                    what is kept: when, how much, of which task, and why",
            "ftl salvage k3v9x2qa-4         the newest of a worktree, as the branch salvage/k3v9x2qa-4-1",
            "ftl salvage k3v9/4 --branch rescue",
            "ftl salvage k3v9x2qa-4/1 --into ../rescued",
        ],
        last: "Bringing back is refused from inside an agent's process tree.",
    },
    Page {
        command: "audit",
        more: "Every entry of a journal carries a hash of itself and of all before it. What no journal covers (orders, \
            notes, lessons, owners and epochs) is under sums that the store keeps, and a head outside of the database says \
            how far it had come.",
        examples: &[
            "ftl audit verify               the store and every run",
            "ftl audit verify k3v9          one run",
        ],
        last: "Exit code 0 if everything is whole, 6 if something was edited, dropped, moved or cut off.",
    },
    Page {
        command: "demo",
        more: "Makes a repository with a small program whose tests fail, and runs a campaign of six tasks on it: one is \
            mended with a recalled lesson, one is blocked and planned again, one cheats and is caught. Only what the agents \
            say is played from a script; the edits, tests, gates and commits are real. The repository stays.",
        examples: &[
            "ftl demo",
            "ftl demo --serve                 live on a page in the browser",
            "ftl demo --dir till              in a folder of your choice",
        ],
        last: "Exit code 2 if the folder is not empty.",
    },
    Page {
        command: "init",
        more: "Looks for agents on PATH, for variables that hold keys (their names, never their values) and for servers of models \
            on this machine, and writes what it found with comments. It never replaces a file.",
        examples: &["ftl init", "ftl init --print               to standard output, nothing is written"],
        last: "Exit code 1 if there is an ftl.toml already.",
    },
    Page {
        command: "config",
        more: "Settings come from your own file, then from ftl.toml in the repository, then from .ftl/config.toml, which git \
            does not see; each has a default.",
        examples: &["ftl config", "ftl config --json"],
        last: "",
    },
    Page {
        command: "trust",
        more: "Shows the files of the repository from which `ftl` takes orders: ftl.toml with the keys that widen, protocols, \
            prompts, adapters. What came with a commit counts once you trust its digest; what you wrote in this checkout \
            counts, and is recorded. At a terminal it asks; with --yes it trusts what is shown.",
        examples: &[
            "ftl trust                     what there is, and how it stands; asks at a terminal",
            "ftl trust --yes               trust all of it, in a script",
            "ftl trust --yes --digest D    trust only files with this digest, as `sha256sum` prints it",
        ],
        last: "Exit code 4 where something stays untrusted. docs/security.md lists the keys that widen.",
    },
    Page {
        command: "agents",
        more: "For each agent of the settings: whether it can be used, for which roles, and what is enforced. What a state of a \
            protocol needs and its agent does not enforce is refused before a run is opened, unless the settings accept it.",
        examples: &[
            "ftl agents",
            "ftl agents probe claude        one cheap turn, to its end",
            "ftl agents record k3v9 --out play.toml",
        ],
        last: "`probe` ends with exit code 1 if the agent does not submit.",
    },
    Page {
        command: "mcp",
        more: "Speaks on standard input and output, for a program that starts MCP servers. Inside of a run it offers an \
            agent exactly the tools of its state: recall, signal, ask and submit. Elsewhere it offers `recall`, to look \
            at the lessons of the repository.",
        examples: &["claude mcp add ftl -- ftl mcp"],
        last: "",
    },
    Page {
        command: "serve",
        more: "Serves one page for this repository on loopback: what needs you over all runs, each run with its graph, \
            time, money, journal and changes, at any moment of it. It reads, and leaves your orders in the store; it \
            drives nothing, and ending it changes nothing. The address opens one session; Enter prints another. From \
            another machine: ssh -L 7717:127.0.0.1:7717 HOST.",
        examples: &["ftl serve --open", "ftl serve --look --port 0      any free port, no orders"],
        last: "Agents are refused, by the process at the other end of the connection.",
    },
    Page {
        command: "tui",
        more: "Eight screens over all runs of this repository: what needs you, runs, a run's board, a task, the journal at any \
            moment, money, lessons, the system. It reads, and leaves your orders in the store; leaving it changes \
            nothing. 80 by 24 is enough, over SSH too. ? lists the keys.",
        examples: &["ftl tui"],
        last: "",
    },
    Page {
        command: "export",
        more: "Writes the page of `ftl serve` with one run and its journal in it: read-only, without a server, nothing is \
            loaded. When it is opened it checks the chain of the journal. Attach it to a pull request.",
        examples: &["ftl export k3v9 --html", "ftl export k3v9 --html -o - | gzip > run.html.gz"],
        last: "",
    },
    Page {
        command: "sandbox",
        more: "`show` tells which layers this machine has and what a role, or a kind of command such as verify, may read \
            and write here. `try` runs one command with these rules in the root of the repository, tells at which level, \
            and which setting would grant what was denied.",
        examples: &[
            "ftl sandbox show builder",
            "ftl sandbox try -- cargo test",
            "ftl sandbox try --role setup -- npm ci",
            "ftl sandbox try --level partial -- make check",
        ],
        last: "Grants stand under [sandbox] in .ftl/config.toml or your own settings, never in a file that comes with a \
            repository. Exit code 4 if the level cannot be had here.",
    },
    Page {
        command: "doctor",
        more: "Looks at the store, chains, locks, leases, leftover processes and worktrees, and puts right only what \
            is safe. Then says whether you can work: git and a commit, agents that are bound, tests that can be run.",
        examples: &[
            "ftl doctor",
            "ftl doctor --deep              also run the tests on HEAD, read all content, decide all journals again",
            "ftl doctor --json | jq '.findings[] | select(.level != \"fine\")'",
            "ftl doctor --accept-loss --reason \"the disk was replaced\"    go on without what is missing",
        ],
        last: "Exit code 0 if nothing is broken (there may be things to look at), 1 if something is; with --json \
            `ready` says whether you can work. A loss is accepted \
            by a person: refused from inside an agent's process tree, and with exit code 4 if nothing is lost.",
    },
    Page {
        command: "check",
        more: "For each protocol: every state can be reached and can end, every loop pays a meter, every gate \
            stands where it must, and the drawings in the document say what the program does. What is wrong \
            is shown with its line and a hint, all of it at once.",
        examples: &[
            "ftl check                      every protocol: the built-in ones and .ftl/protocols/*.md",
            "ftl check coder lifecycle      two of them, by name",
            "ftl check ./draft.md           a document that is not in .ftl/protocols yet",
            "ftl check --quiet              only what is wrong",
            "ftl check --json | jq '.protocols[].holds'",
        ],
        last: "Exit code 0 if everything is sound (there may be warnings), 1 if anything is not.",
    },
    Page {
        command: "draw",
        more: "The drawing is made from the program, never from the drawings in the document; so it also works \
            where those are out of date.",
        examples: &[
            "ftl draw coder                               a Mermaid diagram",
            "ftl draw coder --format edges                one `FROM TO` per line, for scripts",
            "ftl draw coder --format svg -o coder.svg     a picture",
            "ftl draw .ftl/protocols/mine.md --write      put the drawings in the document right",
        ],
        last: "",
    },
    Page {
        command: "protocols",
        more: "A document in .ftl/protocols/ adds a protocol, or replaces the built-in one of its name.",
        examples: &["ftl protocols", "ftl protocols --json | jq -r '.protocols[].digest'"],
        last: "",
    },
    Page {
        command: "schema",
        more: "",
        examples: &[
            "ftl schema                     every action and role, with a line each",
            "ftl schema verify.run          what the gate takes and answers",
            "ftl schema architect           every form of asking the architect",
        ],
        last: "",
    },
    Page {
        command: "completions",
        more: "",
        examples: &[
            "ftl completions bash > ~/.local/share/bash-completion/completions/ftl",
            "ftl completions zsh > ~/.zfunc/_ftl",
            "ftl completions fish > ~/.config/fish/completions/ftl.fish",
        ],
        last: "",
    },
    Page {
        command: "man",
        more: "",
        examples: &["ftl man | man -l -", "ftl man check > ftl-check.1"],
        last: "",
    },
];
