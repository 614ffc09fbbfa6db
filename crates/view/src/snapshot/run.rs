//! The parts of a run as bytes: instances, what is open in them, meters, terms.
//!
//! Each type names all of its fields here, so that one with a new field does not compile before its author has
//! thought of snapshots; then the number of the format goes up.

use std::sync::Arc;

use ftl_core::performer::Performer;
use ftl_core::program::Programs;
use ftl_core::run::{
    ActionId, BudgetMeter, BudgetMeters, End, Failure, FailureKind, HeldAt, Instance, InstanceId,
    ItemOutcome, Meter, Open, OpenKind, Policy, Repeat, Run, ScopeSnapshot, Terms, Thread, ThreadId, Waiver,
    Waiving,
};

use super::pack::{Pack, Packer, Unpacker};

/// A struct as its fields, in this order.
macro_rules! fields {
    ($type:ident { $($field:ident),+ $(,)? }) => {
        impl Pack for $type {
            fn pack(&self, out: &mut Packer) {
                let $type { $($field),+ } = self;
                $($field.pack(out);)+
            }

            fn unpack(from: &mut Unpacker<'_>) -> Option<$type> {
                $(let $field = Pack::unpack(from)?;)+
                Some($type { $($field),+ })
            }
        }
    };
}
pub(crate) use fields;

/// A word out of the list of all, by its place there.
macro_rules! word {
    ($type:ident) => {
        impl Pack for $type {
            fn pack(&self, out: &mut Packer) {
                let at = $type::ALL.iter().position(|one| one == self);
                out.byte(at.and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX));
            }

            fn unpack(from: &mut Unpacker<'_>) -> Option<$type> {
                $type::ALL.get(usize::from(from.byte()?)).copied()
            }
        }
    };
}

word!(End);
word!(FailureKind);
fields!(ActionId { entry, index });
fields!(Failure { kind, message });
fields!(HeldAt { place, failure, meter, stuck });
fields!(Instance {
    id,
    protocol,
    digest,
    parent,
    depth,
    inputs,
    tracked,
    meters,
    state,
    code,
    visit,
    entered,
    repeats,
    params,
    visited,
    threads,
    open,
    owed,
    due,
    each,
    ended,
    held,
    end,
    waivers,
});
fields!(ItemOutcome { each, key, failure });
fields!(Meter { limit, keyed, used });
fields!(Open {
    thread,
    place,
    whom,
    branch,
    digest,
    kind,
    died,
    forbidden,
    held,
    paused,
    paid,
    files,
    suspended,
    reserved,
    seen,
});
fields!(BudgetMeter { limit, used, reserved, guessed });
fields!(Repeat { signature, count, entered });
fields!(ScopeSnapshot { tracked, meters, params, thread });
fields!(Terms { limits, reserve, policies, accepted, equal_failures });
fields!(Thread { place, locals, last, failure, failures, waited, spoken, wanted, waiving, item });
fields!(Waiver { from, to, by, reason, unmet });
fields!(Waiving { to, goto, rested, by, reason, held });

/// Things that have one holder, or whose holders need not share them again.
macro_rules! owned {
    ($($type:ty),+) => {$(
        impl Pack for Arc<$type> {
            fn pack(&self, out: &mut Packer) {
                self.as_ref().pack(out);
            }

            fn unpack(from: &mut Unpacker<'_>) -> Option<Arc<$type>> {
                <$type>::unpack(from).map(Arc::new)
            }
        }
    )+};
}

owned!(ItemOutcome, Open, Vec<Waiver>, Waiving);

impl Pack for InstanceId {
    fn pack(&self, out: &mut Packer) {
        self.0.pack(out);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<InstanceId> {
        Pack::unpack(from).map(InstanceId)
    }
}

impl Pack for ThreadId {
    fn pack(&self, out: &mut Packer) {
        match self {
            ThreadId::Main => out.byte(0),
            ThreadId::Item { each, key } => {
                out.byte(1);
                each.pack(out);
                key.pack(out);
            }
        }
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<ThreadId> {
        match from.byte()? {
            0 => Some(ThreadId::Main),
            1 => Some(ThreadId::Item { each: Pack::unpack(from)?, key: Pack::unpack(from)? }),
            _ => None,
        }
    }
}

impl Pack for Performer {
    fn pack(&self, out: &mut Packer) {
        match self {
            Performer::Action(name) => pack_variant(0, name, out),
            Performer::Task(name) => pack_variant(1, name, out),
            Performer::Run(name) => pack_variant(2, name, out),
            Performer::Shell => out.byte(3),
            Performer::Word => out.byte(4),
            Performer::Question => out.byte(5),
            Performer::Item => out.byte(6),
            Performer::All => out.byte(7),
        }
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<Performer> {
        Some(match from.byte()? {
            0 => Performer::Action(Pack::unpack(from)?),
            1 => Performer::Task(Pack::unpack(from)?),
            2 => Performer::Run(Pack::unpack(from)?),
            3 => Performer::Shell,
            4 => Performer::Word,
            5 => Performer::Question,
            6 => Performer::Item,
            7 => Performer::All,
            _ => return None,
        })
    }
}

/// A kind, and something of it.
fn pack_variant(kind: u8, what: &impl Pack, out: &mut Packer) {
    out.byte(kind);
    what.pack(out);
}

impl Pack for Policy {
    fn pack(&self, out: &mut Packer) {
        match self {
            Policy::Hold => out.byte(0),
            Policy::Deny => out.byte(1),
            Policy::Answer(value) => pack_variant(2, value, out),
        }
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<Policy> {
        Some(match from.byte()? {
            0 => Policy::Hold,
            1 => Policy::Deny,
            2 => Policy::Answer(Pack::unpack(from)?),
            _ => return None,
        })
    }
}

impl Pack for OpenKind {
    fn pack(&self, out: &mut Packer) {
        match self {
            OpenKind::Call => out.byte(0),
            OpenKind::Child(child) => pack_variant(1, child, out),
            OpenKind::Words(words) => pack_variant(2, words, out),
            OpenKind::Question => out.byte(3),
            OpenKind::Record => out.byte(4),
            OpenKind::Item(key) => pack_variant(5, key, out),
            OpenKind::Each { any } => pack_variant(6, any, out),
            OpenKind::Parallel { quorum, critical, until, branches, heard } => {
                pack_variant(7, quorum, out);
                critical.pack(out);
                until.pack(out);
                branches.pack(out);
                heard.pack(out);
            }
        }
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<OpenKind> {
        Some(match from.byte()? {
            0 => OpenKind::Call,
            1 => OpenKind::Child(Pack::unpack(from)?),
            2 => OpenKind::Words(Pack::unpack(from)?),
            3 => OpenKind::Question,
            4 => OpenKind::Record,
            5 => OpenKind::Item(Pack::unpack(from)?),
            6 => OpenKind::Each { any: Pack::unpack(from)? },
            7 => OpenKind::Parallel {
                quorum: Pack::unpack(from)?,
                critical: Pack::unpack(from)?,
                until: Pack::unpack(from)?,
                branches: Pack::unpack(from)?,
                heard: Pack::unpack(from)?,
            },
            _ => return None,
        })
    }
}

/// Appends the bytes of a run.
pub(crate) fn write_run(run: &Run, out: &mut Packer) {
    let all = run.instances();
    (all.len() as u64).pack(out);
    let none = BudgetMeters::new();
    for one in all {
        one.pack(out);
        run.purses(one.id).unwrap_or(&none).pack(out);
    }
    run.terms().pack(out);
    run.next_seq().pack(out);
}

/// Reads a run back. One whose instances do not stand at their numbers is none.
pub(crate) fn read_run(from: &mut Unpacker<'_>, programs: Arc<dyn Programs>) -> Option<Run> {
    let all: Vec<(Instance, BudgetMeters)> = Pack::unpack(from)?;
    let (terms, next) = (Pack::unpack(from)?, Pack::unpack(from)?);
    let is_placed = |(at, (one, _)): (usize, &(Instance, BudgetMeters))| {
        let is_below = one.parent.is_none_or(|(parent, _)| parent < one.id);
        one.id.0 as usize == at && is_below && one.parent.is_none() == (at == 0)
    };
    all.iter().enumerate().all(is_placed).then(|| Run::restored(programs, all, terms, next))
}
