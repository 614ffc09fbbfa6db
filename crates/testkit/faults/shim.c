/* Faults for one process: loaded before libc, it counts the calls that change files whose path
 * contains a text, and lets the N-th of them go wrong. It also moves the wall clock.
 *
 * It never reaches a child: the constructor takes its variables out of the environment. It never
 * allocates, never locks and keeps no table of descriptors: the kernel knows which file one is of.
 *
 *   FTL_FAULT_PATH   the text that a path must contain
 *   FTL_FAULT_EXCEPT a text that it must not contain
 *   FTL_FAULT_CALLS  which calls count: o open for writing, c open that creates, m mkdir, w write,
 *                    s sync, t truncate, r rename, u unlink
 *   FTL_FAULT_AT     the number of the call that goes wrong, from 1
 *   FTL_FAULT_HOW    before | after | torn (killed so), once | on (fails so, with FTL_FAULT_ERRNO)
 *   FTL_FAULT_COUNT  a file in whose first eight bytes the number of calls stands at any time
 *   FTL_FAULT_RAW    1: renames, new folders and removals also count where no function of libc makes them
 *   FTL_FAULT_CLOCK  milliseconds by which the wall is off once FTL_FAULT_CLOCK_AT calls were made
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum how { NEVER, BEFORE, AFTER, TORN, ONCE, ON };

static char wanted_path[512], unwanted_path[512], wanted_calls[16];
static enum how how = NEVER;
static unsigned long long at = 0, clock_at = 0;
static long long clock_off = 0;
static int failure = EIO;
static _Atomic unsigned long long own = 0;
static _Atomic unsigned long long *calls = &own;

static void trap_raw_calls(void);

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

static void share_count(const char *file) {
    int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || syscall(SYS_ftruncate, fd, 8L) != 0) abort();
    void *shared = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) abort();
    syscall(SYS_close, fd);
    calls = shared;
    atomic_store(calls, 0);
}

__attribute__((constructor)) static void begin(void) {
    static const char *const names[] = {"before", "after", "torn", "once", "on"};
    static const char *const all[] = {"LD_PRELOAD",      "FTL_FAULT_PATH",  "FTL_FAULT_CALLS",
                                      "FTL_FAULT_AT",    "FTL_FAULT_HOW",   "FTL_FAULT_ERRNO",
                                      "FTL_FAULT_COUNT", "FTL_FAULT_CLOCK", "FTL_FAULT_CLOCK_AT",
                                      "FTL_FAULT_EXCEPT", "FTL_FAULT_RAW"};
    snprintf(wanted_path, sizeof wanted_path, "%s", variable("FTL_FAULT_PATH"));
    snprintf(unwanted_path, sizeof unwanted_path, "%s", variable("FTL_FAULT_EXCEPT"));
    snprintf(wanted_calls, sizeof wanted_calls, "%s", variable("FTL_FAULT_CALLS"));
    at = strtoull(variable("FTL_FAULT_AT"), NULL, 10);
    failure = atoi(variable("FTL_FAULT_ERRNO"));
    clock_off = strtoll(variable("FTL_FAULT_CLOCK"), NULL, 10);
    clock_at = strtoull(variable("FTL_FAULT_CLOCK_AT"), NULL, 10);
    for (int i = 0; i < 5; i++)
        if (strcmp(variable("FTL_FAULT_HOW"), names[i]) == 0) how = (enum how)(i + 1);
    if (*variable("FTL_FAULT_COUNT")) share_count(variable("FTL_FAULT_COUNT"));
    int is_raw = *variable("FTL_FAULT_RAW");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) unsetenv(all[i]);
    if (is_raw) trap_raw_calls();
}

static void die(void) {
    for (;;) syscall(SYS_kill, (long)getpid(), (long)SIGKILL);
}

static int is_ours(const char *path) {
    if (*unwanted_path && strstr(path, unwanted_path)) return 0;
    return *wanted_path && strstr(path, wanted_path) != NULL;
}

static int is_ours_fd(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long got = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (got <= 0) return 0;
    path[got] = 0;
    return is_ours(path);
}

/* What the call that is being made must come to. */
static enum how fate(char call) {
    if (!strchr(wanted_calls, call)) return NEVER;
    unsigned long long now = atomic_fetch_add(calls, 1) + 1;
    if (how == NEVER || at == 0 || now < at || (now > at && how != ON)) return NEVER;
    if (how == BEFORE) die();
    return how;
}

/* Makes a call that is ours, with its fate; `half` is the same call with half of its bytes. */
#define CALL(ours, letter, real, half)                         \
    do {                                                       \
        enum how now = (ours) ? fate(letter) : NEVER;          \
        if (now == ONCE || now == ON) {                        \
            errno = failure;                                   \
            return -1;                                         \
        }                                                      \
        if (now == TORN) {                                     \
            (void)(half);                                      \
            die();                                             \
        }                                                      \
        long told = (real);                                    \
        int error = errno;                                     \
        if (now == AFTER) die();                               \
        errno = error;                                         \
        return told;                                           \
    } while (0)

static long opened(int folder, const char *path, int flags, mode_t mode) {
    struct stat found;
    int changes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
    int creates = (flags & O_CREAT) && fstatat(folder, path, &found, 0) != 0;
    CALL(changes && is_ours(path), (creates ? 'c' : 'o'), syscall(SYS_openat, folder, path, flags, mode), 0);
}

#define MODE(flags, mode)                                      \
    mode_t mode = 0;                                           \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                     \
        va_list rest;                                          \
        va_start(rest, flags);                                 \
        mode = va_arg(rest, mode_t);                           \
        va_end(rest);                                          \
    }

int open(const char *path, int flags, ...) { MODE(flags, mode) return (int)opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, mode) return (int)opened(AT_FDCWD, path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags, mode) return (int)opened(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags, mode) return (int)opened(folder, path, flags, mode); }

int mkdir(const char *path, mode_t mode) {
    struct stat found;
    int makes = stat(path, &found) != 0;
    CALL(makes && is_ours(path), 'm', syscall(SYS_mkdirat, AT_FDCWD, path, mode), 0);
}

ssize_t write(int fd, const void *bytes, size_t count) {
    CALL(is_ours_fd(fd), 'w', syscall(SYS_write, fd, bytes, count), syscall(SYS_write, fd, bytes, count / 2));
}

static ssize_t pwritten(int fd, const void *bytes, size_t count, off_t from) {
    CALL(is_ours_fd(fd), 'w', syscall(SYS_pwrite64, fd, bytes, count, from),
         syscall(SYS_pwrite64, fd, bytes, count / 2, from));
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t from) { return pwritten(fd, bytes, count, from); }
ssize_t pwrite64(int fd, const void *bytes, size_t count, off_t from) { return pwritten(fd, bytes, count, from); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    CALL(is_ours_fd(fd), 'w', syscall(SYS_writev, fd, parts, count), syscall(SYS_writev, fd, parts, count / 2));
}

int fsync(int fd) { CALL(is_ours_fd(fd), 's', syscall(SYS_fsync, fd), 0); }
int fdatasync(int fd) { CALL(is_ours_fd(fd), 's', syscall(SYS_fdatasync, fd), 0); }
int ftruncate(int fd, off_t size) { CALL(is_ours_fd(fd), 't', syscall(SYS_ftruncate, fd, size), 0); }
int ftruncate64(int fd, off_t size) { CALL(is_ours_fd(fd), 't', syscall(SYS_ftruncate, fd, size), 0); }

int rename(const char *from, const char *to) {
    CALL(is_ours(from) || is_ours(to), 'r', syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0), 0);
}

int unlink(const char *path) { CALL(is_ours(path), 'u', syscall(SYS_unlinkat, AT_FDCWD, path, 0), 0); }

/* Calls that a program makes without libc: the kernel hands them to a handler, which makes them again with a mark in
 * the argument that none of them has. Children keep the filter and not the handler, so it is for programs whose
 * children change no files. */
#define MARK 0x46544c21

#if defined(__x86_64__)
#define ARGUMENT(state, at) ((long)(state)->uc_mcontext.gregs[(const int[]){REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8}[at]])
#define ANSWER(state) ((state)->uc_mcontext.gregs[REG_RAX])
#elif defined(__aarch64__)
#define ARGUMENT(state, at) ((long)(state)->uc_mcontext.regs[at])
#define ANSWER(state) ((state)->uc_mcontext.regs[0])
#else
#error "the registers of a system call are not known here"
#endif

static int is_ours_at(int folder, const char *name) { return folder == AT_FDCWD ? is_ours(name) : is_ours_fd(folder); }

static long marked(int number, const ucontext_t *state) {
    return syscall(number, ARGUMENT(state, 0), ARGUMENT(state, 1), ARGUMENT(state, 2), ARGUMENT(state, 3),
                   ARGUMENT(state, 4), (long)MARK);
}

static long made(int number, const ucontext_t *state) {
    char letter = number == SYS_mkdirat ? 'm' : number == SYS_unlinkat ? 'u' : 'r';
    CALL(is_ours_at((int)ARGUMENT(state, 0), (const char *)ARGUMENT(state, 1)), letter, marked(number, state), 0);
}

static void on_raw_call(int signal, siginfo_t *info, void *context) {
    int before = errno;
    ucontext_t *state = context;
    (void)signal;
    long told = made(info->si_syscall, state);
    ANSWER(state) = told < 0 ? -errno : told;
    errno = before;
}

static void trap_raw_calls(void) {
    struct sigaction handler = {.sa_sigaction = on_raw_call, .sa_flags = SA_SIGINFO | SA_NODEFER};
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdirat, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unlinkat, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MARK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (sigaction(SIGSYS, &handler, NULL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        abort();
}

static long long off(void) { return atomic_load(calls) >= clock_at ? clock_off : 0; }

int clock_gettime(clockid_t which, struct timespec *now) {
    long told = syscall(SYS_clock_gettime, which, now);
    if (told == 0 && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
        long long nanos = now->tv_nsec + (off() % 1000) * 1000000LL;
        now->tv_sec += off() / 1000 + (nanos < 0 ? -1 : nanos / 1000000000LL);
        now->tv_nsec = (long)((nanos + 1000000000LL) % 1000000000LL);
    }
    return (int)told;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
