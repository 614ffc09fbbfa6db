"""A stand-in for everything that an agent must not reach: it listens, holds secrets, and writes down who came."""
import ctypes, json, os, signal, socket, sys, threading

stage = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
came = open(os.path.join(stage, "came.txt"), "a", buffering=1)
ready = {"pid": os.getpid()}


def note(what):
    came.write(what + "\n")


def serve(name, sock, stream):
    def run():
        while True:
            if stream:
                there, _ = sock.accept()
                note(name)
                there.sendall(b"SECRET-OF-" + name.encode())
                there.close()
            else:
                data, where = sock.recvfrom(100)
                note(name)
                sock.sendto(b"SECRET-OF-" + name.encode(), where)
    threading.Thread(target=run, daemon=True).start()


tcp = socket.socket()
tcp.bind(("127.0.0.1", 0))
tcp.listen()
udp = socket.socket(type=socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 0))
path = socket.socket(socket.AF_UNIX)
path.bind(os.path.join(stage, "victim.sock"))
path.listen()
os.chmod(os.path.join(stage, "victim.sock"), 0o777)
hidden = socket.socket(socket.AF_UNIX)
name = "ftl-victim-%d" % os.getpid()
hidden.bind("\0" + name)
hidden.listen()
for what, sock, stream in [("tcp", tcp, True), ("udp", udp, False), ("path", path, True), ("abstract", hidden, True)]:
    serve(what, sock, stream)
ready.update(tcp=tcp.getsockname()[1], udp=udp.getsockname()[1], abstract=name)
signal.signal(signal.SIGUSR1, lambda *_: note("signal"))

secret = ctypes.create_string_buffer(b"SECRET-OF-memory")
ready["address"] = ctypes.addressof(secret)
key = 0x46540000 | (os.getpid() & 0xFFFF)
shared = libc.shmget(key, 4096, 0o1600)
libc.shmat.restype = ctypes.c_void_p
there = libc.shmat(shared, None, 0)
ctypes.memmove(there, b"SECRET-OF-shm\0", 14)
ready["shm"] = key
with open("/dev/shm/ftl-victim-%d" % os.getpid(), "w") as file:
    file.write("SECRET-OF-dev-shm")
with open("/tmp/ftl-victim-%d" % os.getpid(), "w") as file:
    file.write("SECRET-OF-tmp")
kept = open(os.path.join(stage, "home", ".ssh", "id"))
ready["fd"] = kept.fileno()
with open(os.path.join(stage, "victim.json.new"), "w") as file:
    json.dump(ready, file)
os.rename(os.path.join(stage, "victim.json.new"), os.path.join(stage, "victim.json"))
try:
    sys.stdin.read()
finally:
    libc.shmctl(shared, 0, None)
    os.unlink("/dev/shm/ftl-victim-%d" % os.getpid())
    os.unlink("/tmp/ftl-victim-%d" % os.getpid())
