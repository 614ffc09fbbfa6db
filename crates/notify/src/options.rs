//! What a person has chosen: by which ways they are told, of which events, and when not.

use std::time::Duration;

use ftl_folder::clock;
use ftl_view::notices::NoticeKind;
use jiff::civil::Time;

/// A way to reach a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// The terminal of the driver: a bell, and a message that terminals show.
    Terminal,
    /// `notify-send`.
    Desktop,
    /// A command of the person; it reads JSON.
    Command,
    /// An address that takes JSON.
    Webhook,
    /// A topic of ntfy.
    Ntfy,
}

impl Way {
    /// Every way.
    pub const ALL: [Way; 5] = [Way::Terminal, Way::Desktop, Way::Command, Way::Webhook, Way::Ntfy];

    /// The word that settings and the outbox have for it.
    pub const fn word(self) -> &'static str {
        match self {
            Way::Terminal => "terminal",
            Way::Desktop => "desktop",
            Way::Command => "command",
            Way::Webhook => "webhook",
            Way::Ntfy => "ntfy",
        }
    }

    /// The way that a word names.
    pub fn parse(word: &str) -> Option<Way> {
        Way::ALL.into_iter().find(|way| way.word() == word)
    }
}

/// What a person has chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotifyOptions {
    /// Whether the bell rings.
    pub terminal: bool,
    /// Whether the desktop shows it.
    pub desktop: bool,
    /// The command; none where it is empty.
    pub command: String,
    /// The address of the webhook; none where it is empty.
    pub webhook: String,
    /// The key by which messages to the webhook are signed.
    pub webhook_key: Option<String>,
    /// The address of the topic; none where it is empty.
    pub ntfy: String,
    /// The token that the topic wants.
    pub ntfy_token: Option<String>,
    /// What is told of.
    pub events: Vec<NoticeKind>,
    /// Whether the words of questions and reasons are sent too.
    pub words: bool,
    /// When nothing is sent.
    pub quiet: Option<QuietHours>,
    /// How far apart two messages of one way are at least.
    pub every: Duration,
    /// What a link to the page begins with; none where it is empty.
    pub page: String,
}

impl NotifyOptions {
    /// The ways that are chosen.
    pub fn ways(&self) -> Vec<Way> {
        let chosen = |way: &Way| match way {
            Way::Terminal => self.terminal,
            Way::Desktop => self.desktop,
            Way::Command => !self.command.trim().is_empty(),
            Way::Webhook => !self.webhook.trim().is_empty(),
            Way::Ntfy => !self.ntfy.trim().is_empty(),
        };
        Way::ALL.into_iter().filter(chosen).collect()
    }

    /// Whether anybody is told of anything.
    pub fn is_on(&self) -> bool {
        !self.events.is_empty() && !self.ways().is_empty()
    }
}

/// Hours of the day, by the clock on the wall, in which nothing is sent: `22:00-07:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuietHours {
    from: Time,
    to: Time,
}

impl QuietHours {
    /// Reads two times with a dash between them.
    pub fn parse(text: &str) -> Option<QuietHours> {
        let time = |text: &str| {
            let (hour, minute) = text.trim().split_once(':')?;
            Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()
        };
        let (from, to) = text.split_once('-')?;
        Some(QuietHours { from: time(from)?, to: time(to)? })
    }

    /// Whether it is quiet now.
    pub fn are_now(&self) -> bool {
        let now = i64::try_from(clock::wall()).unwrap_or(0);
        let Ok(now) = jiff::Timestamp::from_millisecond(now) else { return false };
        self.contain(now.to_zoned(jiff::tz::TimeZone::system()).time())
    }

    fn contain(&self, time: Time) -> bool {
        if self.from <= self.to {
            self.from <= time && time < self.to
        } else {
            time >= self.from || time < self.to
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_hours_go_over_midnight() {
        let at = |text: &str| {
            let (hour, minute) = text.split_once(':').unwrap();
            Time::new(hour.parse().unwrap(), minute.parse().unwrap(), 0, 0).unwrap()
        };
        let cases = [
            ("22:00-07:00", "23:10", true),
            ("22:00-07:00", "06:59", true),
            ("22:00-07:00", "07:00", false),
            ("12:00-13:30", "12:00", true),
            ("12:00-13:30", "13:30", false),
            ("08:00-08:00", "08:00", false),
        ];
        for (hours, time, wanted) in cases {
            assert_eq!(QuietHours::parse(hours).unwrap().contain(at(time)), wanted, "{hours} at {time}");
        }
        for wrong in ["", "22-7", "25:00-07:00", "22:00", "22:61-07:00"] {
            assert_eq!(QuietHours::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn nobody_is_told_where_no_way_or_no_event_is_chosen() {
        let options = NotifyOptions { events: vec![NoticeKind::Ended], ..NotifyOptions::default() };
        assert!(!options.is_on());
        let told = NotifyOptions { ntfy: String::from("http://127.0.0.1/x"), ..options };
        assert_eq!(told.ways(), [Way::Ntfy]);
        assert!(told.is_on() && !NotifyOptions { events: Vec::new(), ..told }.is_on());
        assert!(Way::ALL.iter().all(|way| Way::parse(way.word()) == Some(*way)));
    }
}
