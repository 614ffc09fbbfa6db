//! Programs that only want to work. Each is a row; all of them work at `full`, for an ordinary user and for root.

use std::time::{Duration, Instant};

use ftl_needs::needs;

use crate::stage::{NOBODY, Stage};

/// What a program does, a script that ends well where it can, and what it prints.
const PROGRAMS: [(&str, &str, &str); 16] = [
    ("writes in its worktree", "echo x > new.txt; mkdir -p a/b; mv new.txt a/b; cat a/b/new.txt", "x\n"),
    (
        "uses a private home and temporary files",
        "echo h > ~/x; echo t > /tmp/x; cat ~/x /tmp/x; mktemp > /dev/null",
        "h\nt\n",
    ),
    (
        "asks git what has changed",
        "echo y > file.txt; git status --short; git log --oneline | wc -l",
        " M file.txt\n1\n",
    ),
    (
        "commits",
        "echo z > file.txt; git -c user.name=a -c user.email=b commit -qam more; git log --oneline | wc -l",
        "2\n",
    ),
    ("runs a pipeline", "seq 100 | sort -r | head -1 | tr 9 8", "88\n"),
    (
        "reads what the system says",
        "test -r /etc/passwd; test -x /usr/bin/env; nproc > /dev/null; uname > /dev/null; echo ok",
        "ok\n",
    ),
    (
        "serves on its own loopback",
        "python3 -c 'import socket,threading\ns=socket.socket();s.bind((\"127.0.0.1\",0));s.listen()\n\
         threading.Thread(target=lambda:s.accept()[0].sendall(b\"served\"),daemon=True).start()\n\
         print(socket.create_connection(s.getsockname()).recv(9).decode())'",
        "served\n",
    ),
    (
        "uses a unix socket",
        "python3 -c 'import socket\na=socket.socket(socket.AF_UNIX);a.bind(\"s\");a.listen()\n\
         b=socket.socket(socket.AF_UNIX);b.connect(\"s\");c=a.accept()[0];c.send(b\"u\");print(b.recv(1).decode())'",
        "u\n",
    ),
    (
        "uses many processes of Python",
        "printf 'from multiprocessing import Pool\\ndef f(x): return x*x\\nif __name__ == \"__main__\":\\n  print(sum(Pool(3).map(f, range(10))))\\n' > pool.py; python3 pool.py",
        "285\n",
    ),
    ("shares memory", "echo m > /dev/shm/x; cat /dev/shm/x", "m\n"),
    (
        "opens a terminal",
        "python3 -c 'import pty,os\nm,s=pty.openpty();os.write(s,b\"p\\n\");print(os.read(m,9).decode().strip())'",
        "p\n",
    ),
    (
        "lists interfaces",
        "python3 -c 'import socket;print([n for _,n in socket.if_nameindex()][:1])'",
        "['lo']\n",
    ),
    (
        "locks a file",
        "python3 -c 'import fcntl;f=open(\"l\",\"w\");fcntl.flock(f,2);print(\"locked\")'",
        "locked\n",
    ),
    (
        "uses SQLite",
        "python3 -c 'import sqlite3;c=sqlite3.connect(\"d\");c.execute(\"create table t(x)\");c.commit();print(1)'",
        "1\n",
    ),
    ("signals its own children", "sleep 60 & kill $!; wait $! || echo $?", "143\n"),
    (
        "makes threads",
        "python3 -c 'import threading\nt=[threading.Thread(target=print,args=(\"t\",)) for _ in range(2)]\n[x.start() for x in t];[x.join() for x in t]'",
        "t\nt\n",
    ),
];

fn everything_works(user: u32) {
    for (what, script, wanted) in PROGRAMS {
        // Each has a stage of its own: none works because of what another has left.
        let stage = Stage::new(user);
        assert_eq!(stage.script("full", script), wanted, "user {user}: {what}");
    }
}

#[needs(python3, root)]
#[test]
fn what_only_wants_to_work_works_for_an_ordinary_user() {
    everything_works(NOBODY);
}

#[needs(python3, root)]
#[test]
fn what_only_wants_to_work_works_for_root() {
    everything_works(0);
}

#[needs(python3, root)]
#[test]
fn how_a_command_ends_is_told_as_without_a_sandbox() {
    let stage = Stage::new(NOBODY);
    for level in ["none", "partial", "full"] {
        assert_eq!(stage.boxed(level, "sh", &["-c", "exit 7"]).status.code(), Some(7), "{level}");
        let killed = stage.boxed(level, "sh", &["-c", "kill -9 $$"]);
        assert!(String::from_utf8_lossy(&killed.stderr).contains("signal 9"), "{level}");
        let missing = stage.boxed(level, "no-such-program", &[]);
        assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot be started"), "{level}");
    }
}

/// Processes of the machine whose command line has these words.
fn alive(words: &str) -> usize {
    let ended = std::process::Command::new("pgrep").args(["-fc", words]).output().unwrap();
    String::from_utf8_lossy(&ended.stdout).trim().parse().unwrap()
}

#[needs(python3, root)]
#[test]
fn nothing_that_was_left_outlives_the_sandbox() {
    let stage = Stage::new(NOBODY);
    let script =
        "for i in 1 2 3; do setsid sh -c 'trap \"\" TERM; sleep 77.77' > /dev/null 2>&1 & done; echo left";
    assert_eq!(stage.script("full", script), "left\n");
    assert_eq!(alive("sleep 77.77"), 0);
}

#[needs(python3, root)]
#[test]
fn a_detached_tree_dies_with_whoever_drives_it() {
    let stage = Stage::new(NOBODY);
    let script = "for i in 1 2 3 4 5; do setsid sh -c 'sleep 78.78; true' > /dev/null 2>&1 & done; wait";
    let mut driver = stage.command_in("full", "sh", &["-c", script]).spawn().unwrap();
    let until = |wanted: &dyn Fn(usize) -> bool, limit: Duration| {
        let began = Instant::now();
        while !wanted(alive("sleep 78.78")) {
            assert!(began.elapsed() < limit, "{} are alive", alive("sleep 78.78"));
            std::thread::sleep(Duration::from_millis(5));
        }
        began.elapsed()
    };
    until(&|count| count >= 12, Duration::from_secs(30));
    driver.kill().unwrap();
    driver.wait().unwrap();
    let took = until(&|count| count == 0, Duration::from_secs(2));
    println!("gone after {} ms", took.as_millis());
}
