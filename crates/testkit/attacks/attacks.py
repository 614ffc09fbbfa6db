"""Tries to leave a sandbox, each way once, and prints a line of JSON for each: what it got, or why not.

Run in a worktree, with the folder of the stage and what the victim told of itself. Nothing that it does hurts the
machine where it succeeds.
"""
import ctypes, fcntl, glob, json, os, pty, socket, stat, struct, sys, time

stage, victim, name_of_this = sys.argv[1], json.loads(sys.argv[2]), os.path.abspath(sys.argv[0])
home, repo, work = os.path.join(stage, "home"), os.path.join(stage, "repo"), os.getcwd()
other = os.path.join(repo, ".ftl", "worktrees", "b")
pid = victim["pid"]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
socket.setdefaulttimeout(2)
NR = dict(io_uring_setup=425, add_key=248, bpf=321, perf_event_open=298, userfaultfd=323, pidfd_open=434,
          pidfd_getfd=438, kcmp=312, open_by_handle_at=304, name_to_handle_at=303, process_vm_readv=310,
          process_madvise=440, syslog=103, prlimit64=302, setns=308, unshare=272, mount=165, chroot=161,
          move_mount=429, open_tree=428, fsopen=430, clone3=435)
if os.uname().machine != "x86_64":
    NR = dict(io_uring_setup=425, add_key=217, bpf=280, perf_event_open=241, userfaultfd=282, pidfd_open=434,
              pidfd_getfd=438, kcmp=272, open_by_handle_at=265, name_to_handle_at=264, process_vm_readv=270,
              process_madvise=440, syslog=116, prlimit64=261, setns=268, unshare=97, mount=40, chroot=51,
              move_mount=429, open_tree=428, fsopen=430, clone3=435)
ATTACKS = []


def attack(function):
    ATTACKS.append(function)
    return function


def call(name, *args):
    got = libc.syscall(ctypes.c_long(NR[name]), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if got < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got


def in_child(work):
    """Does something that would change this process in a child; what it wrote, or the error that it had."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, b"+" + str(work()).encode())
        except BaseException as error:
            os.write(write, b"-" + repr(error).encode())
        os._exit(0)
    os.close(write)
    said = os.read(read, 4000).decode()
    os.close(read)
    os.waitpid(child, 0)
    if not said.startswith("+"):
        raise OSError(said[1:] or "it was killed")
    return said[1:]


def append(path):
    with open(path, "a") as file:
        file.write("attacked\n")
    return "wrote " + path


def read(path, most=200):
    with open(path, "rb") as file:
        return file.read(most).decode(errors="replace")


def talk(sock, where):
    sock.connect(where)
    try:
        sock.send(b"attack")
    except BrokenPipeError:
        pass
    return sock.recv(100).decode()


@attack
def write_home_rc(): return append(home + "/.bashrc")
@attack
def write_checkout(): return append(repo + "/file.txt")
@attack
def write_store(): return append(repo + "/.ftl/store/ftl.db")
@attack
def write_git_hook(): return append(repo + "/.git/hooks/post-commit")
@attack
def write_git_config(): return append(repo + "/.git/config")
@attack
def write_worktree_config(): return append(repo + "/.git/worktrees/a/config.worktree")
@attack
def write_git_ref(): return append(repo + "/.git/refs/heads/attacked")
@attack
def write_other_worktree(): return append(other + "/file.txt")
@attack
def write_settings(): return append(repo + "/.ftl/config.toml")
@attack
def read_ssh_key(): return read(home + "/.ssh/id")
@attack
def read_cloud_key(): return read(home + "/.aws/credentials")
@attack
def read_cargo_token(): return read(home + "/.cargo/credentials.toml")
@attack
def read_other_worktree(): return read(other + "/file.txt")
@attack
def read_store(): return read(repo + "/.ftl/store/ftl.db")
@attack
def read_git_config(): return read(repo + "/.git/config")
@attack
def read_checkout(): return read(repo + "/file.txt")
@attack
def read_shadow(): return read("/etc/shadow")
@attack
def list_home(): return ",".join(sorted(set(os.listdir(home)) & {".ssh", ".aws"})) or fail("nothing of it")


@attack
def link_out():
    os.symlink(home + "/.bashrc", work + "/link")
    try:
        return append(work + "/link")
    finally:
        os.unlink(work + "/link")


@attack
def hard_link_out():
    os.link(home + "/.ssh/id", work + "/hard")
    try:
        return read(work + "/hard")
    finally:
        os.unlink(work + "/hard")


@attack
def chmod_outside():
    os.chmod(home + "/.ssh/id", 0o604)
    return "changed the mode"


@attack
def touch_outside():
    os.utime(home + "/.ssh/id", (1, 1))
    return "changed the time"


@attack
def remove_outside():
    os.unlink(home + "/removable")
    return "removed a file"


@attack
def rename_outside():
    open(work + "/moved", "w").write("attacked\n")
    os.rename(work + "/moved", home + "/moved")
    return "moved a file into the home"


@attack
def replace_git_pointer():
    open(work + "/new", "w").write("gitdir: /tmp\n")
    os.rename(work + "/new", work + "/.git")
    return "replaced .git"


@attack
def connect_tcp(): return talk(socket.socket(), ("127.0.0.1", victim["tcp"]))
@attack
def connect_udp(): return talk(socket.socket(type=socket.SOCK_DGRAM), ("127.0.0.1", victim["udp"]))
@attack
def connect_socket(): return talk(socket.socket(socket.AF_UNIX), stage + "/victim.sock")
@attack
def connect_abstract(): return talk(socket.socket(socket.AF_UNIX), "\0" + victim["abstract"])
@attack
def make_vsock(): return str(socket.socket(40, socket.SOCK_STREAM))
@attack
def make_packet_socket(): return str(socket.socket(17, socket.SOCK_RAW))
@attack
def make_audit_socket(): return str(socket.socket(16, socket.SOCK_RAW, 9))


@attack
def signal_driver():
    os.kill(pid, 10)
    return "signalled"


@attack
def trace_driver():
    def trace():
        if libc.ptrace(0x4206, pid, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")
        return "traced"
    return in_child(trace)


@attack
def read_driver_memory():
    buffer = ctypes.create_string_buffer(16)
    local = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 16)
    remote = (ctypes.c_uint64 * 2)(victim["address"], 16)
    call("process_vm_readv", pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
    return buffer.value.decode()


@attack
def limit_driver():
    limit = (ctypes.c_uint64 * 2)(1000, 1000)
    call("prlimit64", pid, 7, None, ctypes.byref(limit))
    return "read and could set the limits"


@attack
def read_driver_environment():
    text = read("/proc/%d/environ" % pid, 100000)
    return "SECRET" if "SECRET-OF-environment" in text else fail("not there")


@attack
def read_driver_mem_file():
    with open("/proc/%d/mem" % pid, "rb") as file:
        file.seek(victim["address"])
        return file.read(16).decode()


@attack
def walk_driver_root(): return read("/proc/%d/root%s/.ssh/id" % (pid, home))
@attack
def open_driver_descriptor(): return read("/proc/%d/fd/%d" % (pid, victim["fd"]))


@attack
def write_driver_oom(): 
    with open("/proc/%d/oom_score_adj" % pid, "w") as file:
        file.write("500")
    return "made it the first to be killed"


@attack
def find_secret_in_any_environment():
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            if b"SECRET-OF-environment" in open(path, "rb").read():
                return path
        except OSError:
            pass
    return fail("none")


@attack
def take_driver_descriptor():
    there = call("pidfd_open", pid, 0)
    mine = call("pidfd_getfd", there, victim["fd"], 0)
    os.lseek(mine, 0, 0)
    return os.read(mine, 100).decode()


@attack
def compare_driver(): return str(call("kcmp", os.getpid(), pid, 2, 0, 0))


@attack
def enter_driver_namespace():
    def enter():
        fd = os.open("/proc/%d/ns/mnt" % pid, os.O_RDONLY)
        call("setns", fd, 0)
        return "entered"
    return in_child(enter)


@attack
def gain_by_setuid():
    gains = [p for p in ["/usr/bin/su", "/bin/su", "/usr/bin/passwd", "/usr/bin/mount"]
             if os.path.exists(p) and os.stat(p).st_mode & stat.S_ISUID]
    locked = "NoNewPrivs:\t1" in read("/proc/self/status", 10000)
    return gains[0] if gains and not locked else fail("no new privileges")


@attack
def make_user_namespace(): return in_child(lambda: call("unshare", 0x10000000))
@attack
def make_mount_namespace(): return in_child(lambda: (call("unshare", 0x10020000), "made")[1])


@attack
def mount_in_own_namespace():
    def go():
        call("unshare", 0x10020000)
        call("mount", b"t", work.encode(), b"tmpfs", 0, None)
        return "mounted"
    return in_child(go)


@attack
def mount_directly():
    def go():
        os.mkdir(work + "/mnt")
        call("mount", b"t", (work + "/mnt").encode(), b"tmpfs", 0, None)
        libc.umount2((work + "/mnt").encode(), 2)
        return "mounted"
    return in_child(go)


@attack
def make_detached_mount(): return str(call("open_tree", -100, b"/", 1))
@attack
def open_file_system(): return str(call("fsopen", b"tmpfs", 0))
@attack
def change_root(): return in_child(lambda: call("chroot", b"."))


@attack
def use_io_uring():
    params = ctypes.create_string_buffer(120)
    return str(call("io_uring_setup", 1, ctypes.byref(params)))


@attack
def use_keyring(): return str(call("add_key", b"user", b"ftl", b"x", 1, -2))


@attack
def type_into_terminal():
    main, side = pty.openpty()
    fcntl.ioctl(side, 0x5412, b"x")
    return "typed"


@attack
def read_shared_memory():
    there = libc.shmget(victim["shm"], 0, 0)
    if there < 0:
        raise OSError(ctypes.get_errno(), "shmget")
    libc.shmat.restype = ctypes.c_void_p
    at = libc.shmat(there, None, 0o10000)
    return ctypes.string_at(at, 13).decode()


@attack
def read_dev_shm(): return read("/dev/shm/ftl-victim-%d" % pid)
@attack
def read_others_tmp(): return read("/tmp/ftl-victim-%d" % pid)


@attack
def make_device():
    os.mknod(work + "/disk", 0o600 | stat.S_IFBLK, os.makedev(7, 0))
    os.unlink(work + "/disk")
    return "made a device"


@attack
def use_bpf():
    attributes = ctypes.create_string_buffer(struct.pack("IIII", 2, 4, 4, 1) + bytes(56))
    return str(call("bpf", 0, ctypes.byref(attributes), 72))


@attack
def use_perf():
    attributes = ctypes.create_string_buffer(struct.pack("IIQ", 1, 112, 0) + bytes(96))
    return str(call("perf_event_open", ctypes.byref(attributes), 0, -1, -1, 0))


@attack
def use_userfaultfd(): return str(call("userfaultfd", 1))


@attack
def open_by_handle():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    call("name_to_handle_at", -100, b"/usr", ctypes.byref(handle), ctypes.byref(mount), 0)
    root = os.open("/usr", os.O_RDONLY)
    return str(call("open_by_handle_at", root, ctypes.byref(handle), 0))


@attack
def write_core_pattern():
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
    return "could be written"


@attack
def press_sysrq():
    os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY))
    return "could be written"


@attack
def make_cgroup():
    places = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"]
    for place in places:
        try:
            os.mkdir(place + "/ftl-attack")
            os.rmdir(place + "/ftl-attack")
            return place
        except OSError:
            pass
    return fail("none")


@attack
def read_kernel_log():
    buffer = ctypes.create_string_buffer(100)
    call("syslog", 3, ctypes.byref(buffer), 100)
    return buffer.value.decode(errors="replace")


@attack
def write_system_program():
    with open("/usr/bin/ftl-attack", "w") as file:
        file.write("x")
    os.unlink("/usr/bin/ftl-attack")
    return "wrote"


class Failed(Exception):
    pass


def fail(why):
    raise Failed(why)


for one in ATTACKS:
    try:
        got, why = one(), None
    except BaseException as error:
        got, why = None, "%s: %s" % (type(error).__name__, error)
    print(json.dumps({"attack": one.__name__, "got": got, "why": why}), flush=True)
