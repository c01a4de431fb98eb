//! Lines for the attempt's log.

use crate::host;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // the names say it
pub enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

/// Writes a line to the attempt's log. The macros of the `log` crate do the same more comfortably.
pub fn log_line(level: Level, message: &str) {
    host::write(level, message);
}

/// Sends what the `log` crate is given to the host. `own_crate` is the task's; lines of others name where they come from.
#[cfg(feature = "log")]
pub(crate) fn install(own_crate: &'static str) {
    struct Logger(&'static str);

    impl log::Log for Logger {
        fn enabled(&self, _: &log::Metadata) -> bool {
            true // the facade has compared with its own level before it asks
        }

        fn log(&self, record: &log::Record) {
            let target = record.target();
            let text = if target.split("::").next() == Some(self.0) {
                record.args().to_string()
            } else {
                format!("{target}: {}", record.args())
            };
            log_line(record.level().into(), &text);
        }

        fn flush(&self) {}
    }

    // Refused if there is a logger already; that one is the author's own choice.
    if log::set_boxed_logger(Box::new(Logger(own_crate))).is_ok() {
        log::set_max_level(log::LevelFilter::Debug);
    }
}

#[cfg(feature = "log")]
impl From<log::Level> for Level {
    fn from(level: log::Level) -> Self {
        match level {
            log::Level::Trace => Self::Trace,
            log::Level::Debug => Self::Debug,
            log::Level::Info => Self::Info,
            log::Level::Warn => Self::Warn,
            log::Level::Error => Self::Error,
        }
    }
}

#[cfg(all(test, feature = "log"))]
mod tests {
    use super::*;
    use crate::testing::Host;

    #[test]
    fn lines_of_other_crates_say_where_they_come_from() {
        let ((), seen) = Host::new().run(|| {
            log::warn!(target: "somebody::inside", "careful");
            log::trace!("not kept");
            log_line(Level::Info, "plain");
        });
        assert_eq!(
            seen.log,
            [(Level::Warn, "somebody::inside: careful".to_owned()), (Level::Info, "plain".to_owned())]
        );
    }
}
