//! Seccomp: which calls of the kernel a thread and everything that it starts may make.
//!
//! A list of what is denied, made into a filter of the kernel's own instructions. Namespaces and Landlock hold files,
//! processes and networks; this holds what they do not, and what could undo them.

use std::io;

use nix::libc;
use seccompiler::{apply_filter, sock_filter};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// From here on the numbers of x86_64 name the calls of another ABI, which no list of ours holds.
const OTHER_ABI: u32 = 0x4000_0000;

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const IS: u16 = 0x15;
const IS_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const ERROR: u32 = 0x0005_0000;
const KILL: u32 = 0x8000_0000;

/// Where the kernel shows a filter the number of the call, the architecture, and the first argument.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

/// The namespaces that nobody makes inside.
const NAMESPACES: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u32;

/// Calls that are denied whatever their arguments.
const DENIED: [libc::c_long; 47] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
];

/// A question about one argument, whose lower half is all that these calls look at.
#[derive(Clone, Copy, Debug)]
enum Question {
    /// It has one of these bits.
    Has(u32, u32),
    /// It is this.
    Is(u32, u32),
    /// Its bits under the mask are this.
    Masked(u32, u32, u32),
    /// It is none of these.
    IsNone(u32, &'static [u32]),
}

/// A call that is denied where all questions are answered with yes.
struct Denied {
    call: libc::c_long,
    when: Vec<Question>,
    error: i32,
}

/// Holds the calling thread, and everything that it starts, to the calls that are allowed. Without a network of its
/// own it makes no socket that could reach what only a network namespace holds back.
pub(super) fn restrict(own_network: bool) -> io::Result<()> {
    apply_filter(&filter(&denied(own_network))).map_err(io::Error::other)
}

fn denied(own_network: bool) -> Vec<Denied> {
    let mut all: Vec<Denied> =
        DENIED.iter().map(|call| Denied { call: *call, when: Vec::new(), error: libc::EPERM }).collect();
    let mut deny =
        |call, when: &[Question]| all.push(Denied { call, when: when.to_vec(), error: libc::EPERM });
    deny(libc::SYS_unshare, &[Question::Has(0, NAMESPACES)]);
    deny(libc::SYS_clone, &[Question::Has(0, NAMESPACES)]);
    deny(libc::SYS_prlimit64, &[Question::IsNone(0, &[0])]);
    for request in [libc::TIOCSTI as u32, libc::TIOCLINUX as u32] {
        deny(libc::SYS_ioctl, &[Question::Is(1, request)]);
    }
    const UNIX: u32 = libc::AF_UNIX as u32;
    const INET: u32 = libc::AF_INET as u32;
    const INET6: u32 = libc::AF_INET6 as u32;
    const NETLINK: u32 = libc::AF_NETLINK as u32;
    // What lists the interfaces asks the kernel over NETLINK_ROUTE, which is 0.
    deny(libc::SYS_socket, &[Question::Is(0, NETLINK), Question::IsNone(2, &[0])]);
    if own_network {
        deny(libc::SYS_socket, &[Question::IsNone(0, &[UNIX, INET, INET6, NETLINK])]);
    } else {
        deny(libc::SYS_socket, &[Question::IsNone(0, &[INET, INET6, NETLINK])]);
        for family in [INET, INET6] {
            for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_SEQPACKET, libc::SOCK_DCCP] {
                deny(libc::SYS_socket, &[Question::Is(0, family), Question::Masked(1, 0xf, kind as u32)]);
            }
        }
    }
    // The arguments of clone3 cannot be seen; without it the C library uses clone.
    all.push(Denied { call: libc::SYS_clone3, when: Vec::new(), error: libc::ENOSYS });
    all
}

/// The filter of a list.
fn filter(denied: &[Denied]) -> Vec<sock_filter> {
    let mut out = vec![
        load(ARCHITECTURE_AT),
        step(IS, 1, 0, ARCHITECTURE),
        give(KILL),
        load(NUMBER_AT),
        step(IS_AT_LEAST, 0, 1, OTHER_ABI),
        give(ERROR | libc::ENOSYS as u32),
    ];
    for one in denied {
        let mut block: Vec<sock_filter> = Vec::new();
        for question in &one.when {
            block.extend(ask(question));
        }
        block.push(give(ERROR | one.error as u32));
        // What a question is answered with no leaves the block; where that is, is known when it is whole.
        let end = block.len();
        for (at, one) in block.iter_mut().enumerate() {
            let rest = u8::try_from(end - at - 1).unwrap_or(u8::MAX);
            one.jt = if one.jt == LEAVE { rest } else { one.jt };
            one.jf = if one.jf == LEAVE { rest } else { one.jf };
        }
        out.push(load(NUMBER_AT));
        let number = u32::try_from(one.call).unwrap_or(u32::MAX);
        out.push(step(IS, 0, u8::try_from(end).unwrap_or(u8::MAX), number));
        out.append(&mut block);
    }
    out.push(give(ALLOW));
    out
}

/// Stands for the end of a block until that is known.
const LEAVE: u8 = u8::MAX;

fn ask(question: &Question) -> Vec<sock_filter> {
    match *question {
        Question::Has(which, bits) => vec![argument(which), step(AND, 0, 0, bits), step(IS, LEAVE, 0, 0)],
        Question::Is(which, value) => vec![argument(which), step(IS, 0, LEAVE, value)],
        Question::Masked(which, mask, value) => {
            vec![argument(which), step(AND, 0, 0, mask), step(IS, 0, LEAVE, value)]
        }
        Question::IsNone(which, values) => {
            let first = std::iter::once(argument(which));
            first.chain(values.iter().map(|value| step(IS, LEAVE, 0, *value))).collect()
        }
    }
}

fn argument(which: u32) -> sock_filter {
    let low = if cfg!(target_endian = "little") { 0 } else { 4 };
    load(ARGUMENTS_AT + 8 * which + low)
}

fn load(at: u32) -> sock_filter {
    step(LOAD, 0, 0, at)
}

fn give(what: u32) -> sock_filter {
    step(RETURN, 0, 0, what)
}

fn step(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter answers, worked out as the kernel would.
    fn answer(program: &[sock_filter], call: i64, args: &[u32]) -> u32 {
        let read = |at: u32| match at {
            NUMBER_AT => u32::try_from(call).unwrap(),
            ARCHITECTURE_AT => ARCHITECTURE,
            at => args.get(((at - ARGUMENTS_AT) / 8) as usize).copied().unwrap_or(0),
        };
        let (mut at, mut seen) = (0, 0);
        loop {
            let one = &program[at];
            let jump = |yes: bool| usize::from(if yes { one.jt } else { one.jf });
            at += 1 + match one.code {
                LOAD => {
                    seen = read(one.k);
                    0
                }
                AND => {
                    seen &= one.k;
                    0
                }
                IS => jump(seen == one.k),
                IS_AT_LEAST => jump(seen >= one.k),
                _ => return one.k,
            };
        }
    }

    #[test]
    fn the_list_is_what_the_filter_answers() {
        let eperm = ERROR | libc::EPERM as u32;
        let enosys = ERROR | libc::ENOSYS as u32;
        let inet = libc::AF_INET as u32;
        let unix = libc::AF_UNIX as u32;
        let stream = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as u32;
        let datagram = (libc::SOCK_DGRAM | libc::SOCK_NONBLOCK) as u32;
        let thread = (libc::CLONE_VM | libc::CLONE_THREAD) as u32;
        // call, arguments, with a network of its own, without
        let table: &[(i64, &[u32], u32, u32)] = &[
            (libc::SYS_read, &[0], ALLOW, ALLOW),
            (libc::SYS_ptrace, &[0], eperm, eperm),
            (libc::SYS_nfsservctl, &[], eperm, eperm),
            (libc::SYS_clone, &[thread], ALLOW, ALLOW),
            (libc::SYS_clone, &[libc::CLONE_NEWUSER as u32 | thread], eperm, eperm),
            (libc::SYS_unshare, &[libc::CLONE_NEWNS as u32], eperm, eperm),
            (libc::SYS_unshare, &[libc::CLONE_FILES as u32], ALLOW, ALLOW),
            (libc::SYS_clone3, &[0], enosys, enosys),
            (libc::SYS_prlimit64, &[0], ALLOW, ALLOW),
            (libc::SYS_prlimit64, &[77], eperm, eperm),
            (libc::SYS_ioctl, &[1, libc::TIOCSTI as u32], eperm, eperm),
            (libc::SYS_ioctl, &[1, libc::FIONREAD as u32], ALLOW, ALLOW),
            (libc::SYS_socket, &[inet, stream], ALLOW, ALLOW),
            (libc::SYS_socket, &[inet, datagram], ALLOW, eperm),
            (libc::SYS_socket, &[unix, stream], ALLOW, eperm),
            (libc::SYS_socket, &[libc::AF_VSOCK as u32, stream], eperm, eperm),
            (libc::SYS_socket, &[libc::AF_NETLINK as u32, 3, 0], ALLOW, ALLOW),
            (libc::SYS_socket, &[libc::AF_NETLINK as u32, 3, 15], eperm, eperm),
            (i64::from(OTHER_ABI) + libc::SYS_read, &[], enosys, enosys),
        ];
        let (own, shared) = (filter(&denied(true)), filter(&denied(false)));
        for (call, args, with, without) in table {
            assert_eq!(answer(&own, *call, args), *with, "{call} {args:?}");
            assert_eq!(answer(&shared, *call, args), *without, "{call} {args:?}");
        }
    }
}
