//! The proxy: the way out of a sandbox to hosts on a list, for commands that fetch dependencies.
//!
//! It knows one request, CONNECT to a name and a port. The name must be on the list; it is resolved once, and the
//! connection goes to the very address that was looked at. An address of this machine, of a private network, of a link or
//! of a machine's metadata is refused whatever name leads to it, so that nobody's name server opens a way inside.

use std::fmt;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::head::{HeadError, RequestReader};
use super::peer::{GatePlace, Listener, Peer};

/// Registries of dependencies that commands which set a worktree up always reach.
pub const REGISTRIES: [&str; 14] = [
    "crates.io",
    "index.crates.io",
    "static.crates.io",
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "pypi.org",
    "files.pythonhosted.org",
    "proxy.golang.org",
    "sum.golang.org",
    "rubygems.org",
    "index.rubygems.org",
    "repo.maven.apache.org",
    "plugins.gradle.org",
    "packagist.org",
];

/// How many connections a proxy carries at the same time.
pub const MAX_TUNNELS: usize = 64;

/// How many refused hosts are kept to be told.
pub const MAX_DENIALS: usize = 100;

/// How long the head of a request may take to come in.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// How long a connection may take to be made.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// How long a tunnel may be silent.
pub const MAX_TUNNEL_SILENCE: Duration = Duration::from_secs(300);

/// The port that a name on the list stands for where it names none.
const PORT: u16 = 443;

/// Resolves names and makes connections.
pub trait HostConnector: Send + Sync {
    /// The addresses of a name.
    fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
    /// A connection to an address.
    fn connect(&self, address: SocketAddr, limit: Duration) -> io::Result<TcpStream>;
}

/// The network of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemConnector;

impl HostConnector for SystemConnector {
    fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        (host, port).to_socket_addrs().map(Iterator::collect)
    }

    fn connect(&self, address: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
        TcpStream::connect_timeout(&address, limit)
    }
}

/// Why a host was not reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// It is not on the list.
    Unlisted,
    /// It leads to an address that is never reached from inside.
    Address(IpAddr),
}

/// A host that a command wanted and did not reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeniedHost {
    /// The name and the port, as it was asked for.
    pub host: String,
    /// Why.
    pub why: Denied,
}

impl fmt::Display for DeniedHost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Denied::Unlisted => write!(out, "connect {}: not on the list", self.host),
            Denied::Address(address) => write!(out, "connect {}: it leads to {address}", self.host),
        }
    }
}

/// Which hosts may be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostList(Vec<(String, u16)>);

impl HostList {
    /// A list of names: `example.org`, `*.example.org` for all below it, each with `:PORT` where it is not 443.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> HostList {
        let read = |name: &str| match name.rsplit_once(':') {
            Some((host, port)) => Some((host.to_owned(), port.parse().ok()?)),
            None => Some((name.to_owned(), PORT)),
        };
        let small = |(host, port): (String, u16)| (host.trim_end_matches('.').to_ascii_lowercase(), port);
        HostList(names.into_iter().filter_map(read).map(small).collect())
    }

    /// Whether a host is on it.
    pub fn holds(&self, host: &str, port: u16) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let is = |name: &str| match name.strip_prefix('*') {
            Some(end) => end.starts_with('.') && host.len() > end.len() && host.ends_with(end),
            None => name == host,
        };
        self.0.iter().any(|(name, one)| *one == port && is(name))
    }
}

/// Whether an address is never reached from inside: everything that is not a public one of the internet.
pub fn is_forbidden(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_forbidden_v4(address),
        IpAddr::V6(address) => is_forbidden_v6(address),
    }
}

fn is_forbidden_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    // 169.254.169.254 and its like are links; 100.100.100.200 is in the shared range of carriers.
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_protocol = a == 192 && b == 0 && c == 0;
    let is_benchmark = a == 198 && (18..20).contains(&b);
    let is_relay = a == 192 && b == 88 && c == 99;
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        || a >= 240
        || is_shared
        || is_protocol
        || is_benchmark
        || is_relay
}

fn is_forbidden_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let inner = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    // Forms that carry an address of the older kind lead where that one does.
    let carried = match parts {
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(inner(high, low))
        }
        [0x2002, high, low, ..] => Some(inner(high, low)),
        _ => None,
    };
    if let Some(carried) = carried {
        return is_forbidden_v4(carried);
    }
    let is_global = parts[0] & 0xe000 == 0x2000;
    let is_documentation = parts[0] == 0x2001 && parts[1] == 0x0db8;
    // Teredo and its neighbours carry other addresses in forms of their own.
    let is_protocol = parts[0] == 0x2001 && parts[1] < 0x0200;
    !is_global || is_documentation || is_protocol
}

/// A proxy. Dropping it closes it, with all its tunnels.
pub struct Proxy {
    place: GatePlace,
    hall: Arc<ProxyHall>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Proxy({:?})", self.place)
    }
}

struct ProxyHall {
    hosts: HostList,
    network: Arc<dyn HostConnector>,
    is_closed: AtomicBool,
    open: AtomicUsize,
    denials: Mutex<Vec<DeniedHost>>,
}

impl Proxy {
    /// A proxy at a socket that is bound into a sandbox.
    pub fn open(socket: &Path, hosts: HostList, network: Arc<dyn HostConnector>) -> io::Result<Proxy> {
        let (listener, place) = Listener::at_socket(socket)?;
        let (is_closed, open, denials) = Default::default();
        let hall = Arc::new(ProxyHall { hosts, network, is_closed, open, denials });
        let inside = hall.clone();
        std::thread::Builder::new().name(String::from("proxy")).spawn(move || receive(&listener, &inside))?;
        Ok(Proxy { place, hall })
    }

    /// The hosts that were asked for and not reached, each once.
    pub fn denials(&self) -> Vec<DeniedHost> {
        self.hall.denials.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.hall.is_closed.store(true, Ordering::Release);
        self.place.close();
    }
}

fn receive(listener: &Listener, hall: &Arc<ProxyHall>) {
    while !hall.is_closed.load(Ordering::Acquire) {
        let Ok(peer) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        if hall.is_closed.load(Ordering::Acquire) {
            return;
        }
        if hall.open.fetch_add(1, Ordering::AcqRel) >= MAX_TUNNELS {
            hall.open.fetch_sub(1, Ordering::AcqRel);
            refuse(&peer, 503, "too many connections at once");
            continue;
        }
        let inside = hall.clone();
        let serve = move || {
            inside.serve(peer);
            inside.open.fetch_sub(1, Ordering::AcqRel);
        };
        if std::thread::Builder::new().name(String::from("tunnel")).spawn(serve).is_err() {
            hall.open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Why there is no tunnel.
enum NoTunnel {
    Head(HeadError),
    /// It is no CONNECT to a name and a port.
    NoConnect,
    Denied(DeniedHost),
    Unreached(String),
}

impl ProxyHall {
    fn serve(&self, mut peer: Peer) {
        if peer.prepare().is_err() {
            return;
        }
        match self.connect(&mut peer) {
            Ok((server, early)) => {
                let _ = self.carry(&mut peer, server, &early);
            }
            Err(NoTunnel::Head(error)) => {
                error.status().iter().for_each(|status| refuse(&peer, *status, &error.to_string()));
            }
            Err(NoTunnel::NoConnect) => refuse(&peer, 405, "only CONNECT host:port is known here"),
            Err(NoTunnel::Unreached(why)) => refuse(&peer, 502, &why),
            Err(NoTunnel::Denied(denied)) => {
                refuse(&peer, 403, &denied.to_string());
                let mut all = self.denials.lock().unwrap_or_else(PoisonError::into_inner);
                if all.len() < MAX_DENIALS && !all.contains(&denied) {
                    all.push(denied);
                }
            }
        }
        peer.shutdown(Shutdown::Both);
    }

    /// The connection that was asked for, and what the peer has sent already.
    fn connect(&self, peer: &mut Peer) -> Result<(TcpStream, Vec<u8>), NoTunnel> {
        let mut reader = RequestReader::new(peer, HEAD_TIME);
        let request = reader.head().map_err(NoTunnel::Head)?;
        let early = reader.into_rest();
        let named = request.target.rsplit_once(':').filter(|_| request.method == "CONNECT");
        let (host, port) = named.ok_or(NoTunnel::NoConnect)?;
        let port: u16 = port.parse().map_err(|_| NoTunnel::NoConnect)?;
        let denied = |why| NoTunnel::Denied(DeniedHost { host: request.target.clone(), why });
        if !self.hosts.holds(host, port) {
            return Err(denied(Denied::Unlisted));
        }
        let unreached = |error: io::Error| NoTunnel::Unreached(format!("{host} is not reached: {error}"));
        // Resolved once: what is looked at is what is connected to.
        let addresses = self.network.resolve(host, port).map_err(unreached)?;
        if let Some(one) = addresses.iter().find(|one| is_forbidden(one.ip())) {
            return Err(denied(Denied::Address(one.ip())));
        }
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in addresses {
            match self.network.connect(address, CONNECT_TIME) {
                Ok(server) => return Ok((server, early)),
                Err(error) => last = error,
            }
        }
        Err(unreached(last))
    }

    fn carry(&self, peer: &mut Peer, mut server: TcpStream, early: &[u8]) -> io::Result<()> {
        peer.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        peer.set_read_timeout(Some(MAX_TUNNEL_SILENCE))?;
        server.set_read_timeout(Some(MAX_TUNNEL_SILENCE))?;
        server.write_all(early)?;
        let (mut from_peer, mut to_server) = (peer.try_clone()?, server.try_clone()?);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _ = self.copy(&mut from_peer, &mut to_server);
                let _ = to_server.shutdown(Shutdown::Write);
            });
            let _ = self.copy(&mut server, peer);
            peer.shutdown(Shutdown::Write);
        });
        Ok(())
    }

    fn copy(&self, from: &mut impl io::Read, to: &mut impl io::Write) -> io::Result<()> {
        let mut piece = [0; 16 * 1024];
        loop {
            let read = from.read(&mut piece)?;
            if read == 0 || self.is_closed.load(Ordering::Acquire) {
                return Ok(());
            }
            to.write_all(&piece[..read])?;
        }
    }
}

fn refuse(peer: &Peer, status: u16, why: &str) {
    let head =
        format!("HTTP/1.1 {status} -\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{why}", why.len());
    if let Ok(mut out) = peer.try_clone() {
        let _ = out.write_all(head.as_bytes());
    }
}
