# SPDX-License-Identifier: Apache-2.0
"""Stands between a shim's socket and the sidecar, and delays every packet."""
import os
import queue
import random
import socket
import threading
import time

PACKET_MAX = 1 << 17
FDS_MAX = 4


class DelayingProxy:
    """Shows each shim's socket of one directory in another one; what goes through it comes up to `most_s` later,
    in order, file descriptors included. Ends with its process: daemon threads."""

    def __init__(self, shims, shown, most_s, seed):
        self.shims, self.shown, self.most_s, self.random = shims, shown, most_s, random.Random(seed)
        self.packets = 0
        self.ended = threading.Event()
        self.listeners = {}
        self._thread(self._look)

    @staticmethod
    def _thread(target, *arguments):
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        return thread

    def stop(self):
        self.ended.set()
        for listener in self.listeners.values():
            listener.close()

    def _look(self):
        while not self.ended.wait(0.05):
            for path in self.shims.glob("pillion-*.sock"):
                if path.name not in self.listeners:
                    self._show(path)

    def _show(self, path):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        hidden = self.shown / f".{path.name}"
        listener.bind(str(hidden))
        listener.listen(8)
        self.listeners[path.name] = listener
        hidden.rename(self.shown / path.name)  # whoever sees the name can connect
        self._thread(self._accept, listener, path)

    def _accept(self, listener, path):
        while not self.ended.is_set():
            try:
                sidecar = listener.accept()[0]
            except OSError:
                return
            shim = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                shim.connect(str(path))
            except OSError:
                sidecar.close()
                continue
            self._thread(self._serve, sidecar, shim)

    def _serve(self, sidecar, shim):
        with sidecar, shim:
            threads = [self._thread(self._carry, *ends) for ends in ((sidecar, shim), (shim, sidecar))]
            for thread in threads:
                thread.join()

    def _carry(self, source, sink):
        waiting = queue.Queue()
        delivery = self._thread(self._deliver, waiting, sink)
        due = 0.0
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(source, PACKET_MAX, FDS_MAX)
            except OSError:
                data, fds = b"", []
            due = max(due, time.monotonic() + self.random.uniform(0, self.most_s))
            waiting.put((due, data, fds))
            if not data:
                delivery.join()
                return
            self.packets += 1

    @staticmethod
    def _deliver(waiting, sink):
        while True:
            due, data, fds = waiting.get()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                if not data:
                    sink.shutdown(socket.SHUT_RDWR)
                    return
                socket.send_fds(sink, [data], fds)
            except OSError:
                return
            finally:
                for fd in fds:
                    os.close(fd)
