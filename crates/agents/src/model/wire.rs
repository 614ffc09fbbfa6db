//! HTTP: one request at a time, watched while it waits.
//!
//! Between the socket and TLS stands a transport of ours that waits in short slices and looks each time
//! whether the answer is still wanted and still in time. So a request is cancelled in the middle of a
//! stream without a second thread, and a server that sends a byte now and then does not hold us.

use std::fmt;
use std::io::{self, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ureq::config::Config;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::time::Duration as Span;
use ureq::unversioned::transport::{
    Buffers, ConnectProxyConnector, ConnectionDetails, Connector, NextTimeout, RustlsConnector, TcpConnector,
    Transport,
};

use crate::contract::{SessionHost, SessionLimits};
use crate::timing::{SLICE, Timing, retry_after};

/// How long a connection may take to be made.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// How long a request may take to be sent.
const SEND_TIME: Duration = Duration::from_secs(60);

/// How much of an answer that is an error is read.
const MAX_ERROR_BYTES: u64 = 64 * 1024;

/// Why a request is not waited for any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abort {
    Cancelled,
    Silent,
    Late,
}

/// Looks whether a request is still wanted and in time.
pub(crate) struct Watch {
    is_over: Box<dyn Fn() -> bool + Send + Sync>,
    timing: Arc<dyn Timing>,
    limits: SessionLimits,
    began: AtomicU64,
    heard: AtomicU64,
}

impl Watch {
    pub(super) fn new(host: Arc<dyn SessionHost>, timing: Arc<dyn Timing>, limits: SessionLimits) -> Watch {
        Watch::until(Box::new(move || host.is_cancelled()), timing, limits)
    }

    /// A watch until something is over.
    pub(crate) fn until(
        is_over: Box<dyn Fn() -> bool + Send + Sync>,
        timing: Arc<dyn Timing>,
        limits: SessionLimits,
    ) -> Watch {
        Watch { is_over, timing, limits, began: AtomicU64::new(0), heard: AtomicU64::new(0) }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.timing.now().as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes that a request begins, so that its time runs.
    fn begin(&self) {
        self.began.store(self.now(), Ordering::Relaxed);
        self.hear();
    }

    /// Something whole was heard; single bytes do not count.
    pub(crate) fn hear(&self) {
        self.heard.store(self.now(), Ordering::Relaxed);
    }

    pub(super) fn abort(&self) -> Option<Abort> {
        if (self.is_over)() {
            return Some(Abort::Cancelled);
        }
        let since =
            |then: &AtomicU64| Duration::from_millis(self.now().saturating_sub(then.load(Ordering::Relaxed)));
        if since(&self.heard) > self.limits.silence {
            return Some(Abort::Silent);
        }
        (since(&self.began) > self.limits.whole).then_some(Abort::Late)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Watch")
    }
}

/// Puts a watch between the socket and TLS.
#[derive(Debug)]
struct Watching(Arc<Watch>);

#[derive(Debug)]
struct Watched<T> {
    inner: T,
    watch: Arc<Watch>,
}

impl<In: Transport> Connector<In> for Watching {
    type Out = Watched<In>;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Watched<In>>, ureq::Error> {
        Ok(chained.map(|inner| Watched { inner, watch: self.0.clone() }))
    }
}

impl<T: Transport> Transport for Watched<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let slice = Span::from(SLICE);
        if timeout.after < slice {
            return self.inner.await_input(timeout);
        }
        loop {
            if self.watch.abort().is_some() {
                return Err(ureq::Error::Io(io::Error::other("not waited for any longer")));
            }
            match self.inner.await_input(NextTimeout { after: slice, ..timeout }) {
                Err(ureq::Error::Timeout(_)) => {}
                other => return other,
            }
        }
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

/// The HTTP client of one session.
#[derive(Debug)]
pub(crate) struct Wire {
    agent: ureq::Agent,
    pub(super) watch: Arc<Watch>,
}

/// The reasons for which there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    Aborted(Abort),
    /// Nothing was heard: no connection, or it broke before the answer began.
    Unreached(String),
    /// What was asked for makes no sense to the client.
    Wrong(String),
}

/// The beginning of an answer.
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) kind: String,
    pub(super) after: Option<Duration>,
    body: ureq::BodyReader<'static>,
}

impl Wire {
    pub(crate) fn new(watch: Arc<Watch>) -> Wire {
        let config = Config::builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_resolve(Some(CONNECT_TIME))
            .timeout_connect(Some(CONNECT_TIME))
            .timeout_send_request(Some(SEND_TIME))
            .timeout_send_body(Some(SEND_TIME))
            .max_idle_connections(1)
            .input_buffer_size(32 * 1024)
            .output_buffer_size(32 * 1024)
            .build();
        let connector =
            ().chain(ConnectProxyConnector::default())
                .chain(TcpConnector::default())
                .chain(Watching(watch.clone()))
                .chain(RustlsConnector::default());
        Wire { agent: ureq::Agent::with_parts(config, connector, DefaultResolver::default()), watch }
    }

    /// Sends a request and waits until its answer begins.
    pub(super) fn post(&self, url: &str, headers: &[(&str, String)], body: &str) -> Result<Head, NoAnswer> {
        self.watch.begin();
        let mut request = self.agent.post(url).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        self.head(request.send(body.as_bytes()))
    }

    /// Asks for something without sending anything.
    pub(super) fn get(&self, url: &str, headers: &[(&str, String)]) -> Result<Head, NoAnswer> {
        self.watch.begin();
        let mut request = self.agent.get(url);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        self.head(request.call())
    }

    /// Sends a request as it is, and waits until its answer begins.
    pub(crate) fn forward(
        &self,
        request: ureq::http::Request<Vec<u8>>,
    ) -> Result<ureq::http::Response<ureq::Body>, NoAnswer> {
        self.watch.begin();
        let answer = self.agent.run(request).map_err(|error| self.no_answer(&error))?;
        self.watch.hear();
        Ok(answer)
    }

    fn head(&self, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Head, NoAnswer> {
        let answer = answer.map_err(|error| self.no_answer(&error))?;
        self.watch.hear();
        let text = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
        Ok(Head {
            status: answer.status().as_u16(),
            kind: text("content-type").unwrap_or_default().to_ascii_lowercase(),
            after: retry_after(text("retry-after"), text("date")),
            body: answer.into_body().into_reader(),
        })
    }

    fn no_answer(&self, error: &ureq::Error) -> NoAnswer {
        if let Some(abort) = self.watch.abort() {
            return NoAnswer::Aborted(abort);
        }
        match error {
            ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::InvalidProxyUrl => {
                NoAnswer::Wrong(error.to_string())
            }
            _ => NoAnswer::Unreached(error.to_string()),
        }
    }
}

impl Head {
    /// The next bytes; none at the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.body.read(into)
    }

    /// The text of an answer that is an error, as much as is worth reading.
    pub(super) fn text(self) -> String {
        let mut bytes = Vec::new();
        let _ = self.body.take(MAX_ERROR_BYTES).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
