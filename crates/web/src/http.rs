//! Bytes in and out over HTTP/1.1: connections, headers, bodies and time are limited, and nothing is understood here.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Sleep, Timer, Write};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::mpsc::Receiver;

/// How many connections are open.
pub(crate) const MAX_CONNECTIONS: usize = 64;

/// How large all headers of a request are.
pub(crate) const MAX_HEADER_BYTES: usize = 16 * 1024;

/// How many headers a request has.
pub(crate) const MAX_HEADERS: usize = 64;

/// How large the body of a request is.
pub(crate) const MAX_BODY_BYTES: usize = 1024 * 1024;

/// How long a request may take to arrive.
pub(crate) const MAX_ARRIVAL: Duration = Duration::from_secs(10);

/// How much is read at once.
const PIECE: usize = 8 * 1024;

/// A connection as hyper reads and writes it.
pub(crate) struct Wire(pub(crate) TcpStream);

impl Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut piece = [0; PIECE];
        let most = into.remaining().min(PIECE);
        let mut part = ReadBuf::new(&mut piece[..most]);
        ready!(Pin::new(&mut self.get_mut().0).poll_read(cx, &mut part))?;
        into.put_slice(part.filled());
        Poll::Ready(Ok(()))
    }
}

impl Write for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(cx)
    }
}

/// The clock by which hyper limits the time of headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock;

struct Nap(Pin<Box<tokio::time::Sleep>>);

impl Future for Nap {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl Sleep for Nap {}

impl Timer for Clock {
    fn sleep(&self, time: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Nap(Box::pin(tokio::time::sleep(time))))
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Nap(Box::pin(tokio::time::sleep_until(at.into()))))
    }
}

/// What is answered: a whole, or a stream that ends when its sender does.
pub(crate) enum Body {
    /// A body in one piece; `None` once it was taken.
    Whole(Option<Bytes>),
    /// A body in pieces, as they are sent.
    Stream(Receiver<Bytes>),
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Body::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Stream(pieces) => {
                pieces.poll_recv(cx).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Body::Stream(_) => SizeHint::default(),
        }
    }
}

/// Why a body was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFault {
    /// It is larger than it may be.
    TooLarge,
    /// The request was cut off before its end.
    Cut,
}

/// Reads a body whole.
pub(crate) async fn collect<B>(mut body: B) -> Result<Vec<u8>, BodyFault>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let mut all = Vec::new();
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let Some(frame) = frame else { return Ok(all) };
        let frame = frame.map_err(|_| BodyFault::Cut)?;
        if let Ok(bytes) = frame.into_data() {
            if all.len() + bytes.len() > MAX_BODY_BYTES {
                return Err(BodyFault::TooLarge);
            }
            all.extend_from_slice(&bytes);
        }
    }
}
