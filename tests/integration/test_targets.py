# SPDX-License-Identifier: Apache-2.0
"""What `pillion inject` does to every kind of process, and that `pillion doctor` says it beforehand.

Each row is a process that was started without the shim. Where inject works, the profile is exact; where it refuses, it
says why in doctor's words, and the process has not noticed.
"""
import os
import pathlib
import signal
import subprocess
import sys
import time

from adverse import is_root, row, system_call_numbers
from harness import WORKLOADS, ProfileTest, Window, main, wait_until
from injection import (DONE, EPOLL_PROGRAM, GONE, NO_PTRACE, PTRACE_ALONE, REFUSED, UNPRIVILEGED, Operator, alive, build, bullseye_root,
                       injected, refused, sleeps, start, tid_state)
from matrix import run_rows
from target_deliveries import DELIVERIES
from target_shortages import SHORTAGES

NEEDS_ROOT = "" if is_root() else "needs root"
TRACER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(0x4206, int(sys.argv[1]), 0, 0) != 0:  # PTRACE_SEIZE
    sys.exit(os.strerror(ctypes.get_errno()))
print("ready", flush=True)
sys.stdin.read()
"""
PROGRAM_32 = """
.globl _start
_start: mov $4, %eax
 mov $1, %ebx
 mov $text, %ecx
 mov $6, %edx
 int $0x80
again: mov $29, %eax
 int $0x80
 jmp again
.data
text: .ascii "ready\\n"
"""


def children(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def profiled(test, beside, *words, **options):
    """A CUDA program whose shim is injected, profiled exactly, and which ends as it would."""
    beside.start(shim=False, **options)
    injected(test, Operator(beside), beside.workload.pid, *words)
    beside.attach()
    beside.exact()
    beside.end()


def a_cuda_program(test, beside):
    profiled(test, beside, "in memory, as /proc/thread-self/fd/", "stood still for")


def not_position_independent(test, beside):
    profiled(test, beside, program=WORKLOADS / "adverse_fixed")
    test.assertEqual((WORKLOADS / "adverse_fixed").read_bytes()[16], 2)  # ET_EXEC


def many_threads(test, beside):
    workload = beside.bench.workload("many_threads", "--threads", 64, "--seconds", 8, "--rate", 2000, shim=False)
    operator = Operator(beside)
    wait_until(lambda: len(os.listdir(f"/proc/{workload.pid}/task")) >= 64, "its threads", 20)
    injected(test, operator, workload.pid)
    sidecar = beside.bench.sidecar("-wait-for-shim", "20s")
    sidecar.wait_ready()
    profile = sidecar.profile(1)
    test.assertGreater(profile["quality"]["launches"], 100)
    test.assert_all_rooted(profile)
    test.assertEqual(workload.finish(), 0, workload.output())


def leader_has_ended(test, beside):
    beside.start(shim=False)
    beside.workload.tell("end_main_thread 30")
    test.assertEqual(beside.workload.line(), "30")
    wait_until(lambda: tid_state(beside.workload.pid) == "Z", "the leader to end")
    injected(test, Operator(beside), beside.workload.pid)
    beside.attach()
    with Window(beside.sidecar, 2, pid=beside.workload.pid) as window:
        beside.workload.do("next")
    test.assert_launches(window.take(), 30)
    beside.workload.process.stdin.close()
    test.assertEqual(beside.workload.process.wait(20), 0)


def in_namespaces(test, beside, wrapper, actions, *words):
    """Where it may not see the sidecar's folder: the shim is there and asleep, and the program goes on."""
    beside.start(shim=False, wrapper=wrapper)
    for action in actions:
        beside.workload.do(action)
    beside.workload.launch(5)
    injected(test, Operator(beside), beside.workload.pid, *words)
    beside.end()


def mount_namespace_with_proc(test, beside):
    in_namespaces(test, beside, ("unshare", "-m"), (), "in memory")


def refused_without_proc(test, beside, wrapper, *actions, reason):
    beside.start(shim=False, wrapper=wrapper)
    for action in actions:
        beside.workload.do(action)
    refused(test, Operator(beside), beside.workload.pid, reason, force=True)
    beside.end()


def mount_namespace_without_proc(test, beside):
    refused_without_proc(test, beside, ("unshare", "-m"), "hide_proc", reason="there is no /proc in its root")


def chroot_without_proc(test, beside):
    root = beside.bench.folder / "root"
    (root / "tmp").mkdir(parents=True)
    refused_without_proc(test, beside, (), f"chroot {root}", reason="there is no /proc in its root")


def chroot_without_libraries(test, beside):
    """A program that went into an empty root after its start: nothing can be loaded from there."""
    root = beside.bench.folder / "root"
    (root / "proc").mkdir(parents=True)
    refused_without_proc(test, beside, ("unshare", "-m", "sh", "-c", f'mount -t proc proc {root}/proc && exec "$@"', "sh"),
                         f"chroot {root}", reason="libdl.so.2, which the shim asks for")


def proc_of_another_namespace(test, beside):
    """The /proc in its root knows the process not: it was mounted for others."""
    process = start(beside, ["unshare", "--pid", "--fork", "--mount-proc", "unshare", "--pid", "--fork", build(beside, "gcc")])
    [inner] = children(process.pid)
    [target] = children(int(inner))
    # It is in that /proc by the pid of the middle namespace, and so found: /proc/self works for it.
    injected(test, Operator(beside), target, forecast=False)
    os.kill(int(target), signal.SIGKILL)
    process.wait(10)


def pid_namespace(test, beside):
    """Pid 1 of another container, by the pid that it has here; its own is not enough, and that is explained."""
    process = start(beside, ["unshare", "--pid", "--fork", "--mount-proc", build(beside, "gcc")])
    operator = Operator(beside)
    [child] = children(process.pid)
    refused(test, operator, child, "does not use CUDA", "-force", passes=True)
    injected(test, operator, child, forecast=False)
    os.kill(int(child), signal.SIGKILL)
    process.wait(10)
    refused(test, operator, child, "there is no process", code=GONE)


def statically_linked(test, beside):
    process = start(beside, [build(beside, "gcc", "-static")])
    refused(test, Operator(beside), process.pid, "statically linked", force=True)
    test.assertTrue(alive(process))


def static_position_independent(test, beside):
    process = start(beside, [build(beside, "gcc", "-static-pie")])
    refused(test, Operator(beside), process.pid, "statically linked", force=True)
    test.assertTrue(alive(process))


def musl(test, beside):
    process = start(beside, [build(beside, "musl-gcc")])
    refused(test, Operator(beside), process.pid, "musl", "needs glibc", force=True)
    test.assertTrue(alive(process))


def of_32_bits(test, beside):
    folder = beside.bench.folder
    (folder / "t.s").write_text(PROGRAM_32)
    subprocess.run(["as", "--32", "-o", folder / "t.o", folder / "t.s"], check=True)
    subprocess.run(["ld", "-m", "elf_i386", "-o", folder / "target", folder / "t.o"], check=True)
    process = start(beside, [folder / "target"])
    refused(test, Operator(beside), process.pid, "32-bit", force=True)
    test.assertTrue(alive(process))


def no_cuda(test, beside):
    process = start(beside, [build(beside, "gcc")])
    operator = Operator(beside)
    refused(test, operator, process.pid, "does not use CUDA", "-force", passes=True)
    injected(test, operator, process.pid, forecast=False)
    test.assertTrue(alive(process))


def filter_that_kills(test, beside):
    """memfd_create would end it: it is let alone, and lives."""
    numbers = system_call_numbers()
    path = beside.bench.folder / "system-calls"
    path.write_text("\n".join(str(number) for name, number in numbers.items() if name != "memfd_create"))
    beside.start(shim=False)
    beside.workload.do(f"kill_others {path}")
    refused(test, Operator(beside), beside.workload.pid, "a seccomp filter of its own", "-force")
    beside.end()


def filter_that_refuses(test, beside):
    """Who knows the filter may force it."""
    path = beside.bench.folder / "system-calls"
    path.write_text(str(system_call_numbers()["swapon"]))
    beside.start(shim=False)
    beside.workload.do(f"refuse_eperm {path}")
    operator = Operator(beside)
    refused(test, operator, beside.workload.pid, "a seccomp filter of its own", "-force")
    injected(test, operator, beside.workload.pid, forecast=False)
    beside.attach()
    beside.exact()
    beside.end()


def traced(test, beside):
    beside.start(shim=False)
    tracer = start(beside, [sys.executable, "-c", TRACER, beside.workload.pid], stdin=subprocess.PIPE)
    operator = Operator(beside)
    refused(test, operator, beside.workload.pid, "is traced by process " + str(tracer.pid), force=True)
    tracer.stdin.close()
    tracer.wait(10)
    injected(test, operator, beside.workload.pid)
    beside.end()


def another_user_without_rights(test, beside):
    beside.start(shim=False)
    refused(test, Operator(beside, UNPRIVILEGED), beside.workload.pid, "runs as user 0", "CAP_SYS_PTRACE", force=True)
    beside.end()


def root_without_the_capability(test, beside):
    beside.start(shim=False)
    refused(test, Operator(beside, NO_PTRACE), beside.workload.pid, "has capabilities that pillion has not",
            "CAP_SYS_PTRACE", force=True)
    beside.end()


def both_without_the_capability(test, beside):
    beside.start(shim=False, wrapper=NO_PTRACE)
    injected(test, Operator(beside, NO_PTRACE), beside.workload.pid)
    beside.end()


def another_user_with_the_capability_alone(test, beside):
    beside.start(shim=False)
    """It may not read what the threads sleep in, and tells them by their wait channels."""
    operator = Operator(beside, PTRACE_ALONE)
    call = subprocess.run([*PTRACE_ALONE, "cat", f"/proc/{beside.workload.pid}/syscall"], capture_output=True, text=True)
    test.assertIn("Permission denied", call.stderr)
    injected(test, operator, beside.workload.pid)
    beside.end()


def epoll_with_the_capability_alone(test, beside):
    """Stopped to see what it sleeps in, which would give it EINTR: it waits on."""
    process = start(beside, [build(beside, "gcc", source=EPOLL_PROGRAM)])
    injected(test, Operator(beside, PTRACE_ALONE), sleeps(process.pid), forecast=False)
    test.assertTrue(alive(process))


def not_dumpable(test, beside):
    """A program of one's own user that hides itself."""
    beside.bench.folder.chmod(0o755)
    beside.bench.sockets.chmod(0o777)
    beside.start(shim=False)
    beside.workload.do("drop_user 1000")
    beside.workload.do("not_dumpable")
    refused(test, Operator(beside, UNPRIVILEGED), beside.workload.pid, "undumpable", "CAP_SYS_PTRACE", force=True)
    injected(test, Operator(beside), beside.workload.pid)
    beside.end()


def in_a_user_namespace(test, beside):
    in_namespaces(test, beside, ("unshare", "--user", "--map-root-user"), ())


def from_within_a_user_namespace(test, beside):
    """All capabilities, and none that counts outside."""
    beside.start(shim=False)
    refused(test, Operator(beside, ("unshare", "--user", "--map-root-user")), beside.workload.pid,
            "another user namespace", force=True)
    beside.end()


def stopped(test, beside):
    beside.start(shim=False)
    os.kill(beside.workload.pid, signal.SIGSTOP)
    wait_until(lambda: tid_state(beside.workload.pid) == "T", "it to stop")
    operator = Operator(beside)
    refused(test, operator, beside.workload.pid, "is stopped", f"kill -CONT {beside.workload.pid}", force=True,
            passes=True)
    test.assertEqual(tid_state(beside.workload.pid), "T")
    os.kill(beside.workload.pid, signal.SIGCONT)
    injected(test, operator, beside.workload.pid)
    beside.end()


def between_vfork_and_exec(test, beside):
    """The child would give the library to its parent's memory; the parent sleeps in the kernel until it goes on."""
    target = build(beside, "gcc", source="""#define _GNU_SOURCE
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  if (vfork() == 0) { write(1, "ready\\n", 6); pause(); _exit(0); }
  for (;;) pause();
}
""")
    process = start(beside, [target])
    [child] = children(process.pid)
    refused(test, Operator(beside), child, "between vfork and exec", f"-pid {process.pid}", force=True, passes=True)
    os.kill(int(child), signal.SIGKILL)
    sleeps(process.pid)
    test.assertTrue(alive(process))


def pillion_itself_and_no_process(test, beside):
    sidecar = beside.bench.sidecar("-wait-for-shim", "0")
    operator = Operator(beside)
    # Another pillion than the one that asks is a program like others.
    refused(test, operator, sidecar.process.pid, "does not use CUDA", passes=True)
    refused(test, operator, 4194304, "there is no process 4194304", code=GONE)
    refused(test, operator, 2, "thread of the kernel", force=True)


def glibc_of_bullseye(test, beside):
    """glibc 2.31: dlopen in libdl, pthread_create in libpthread. Without the latter it is refused."""
    root, why_not = bullseye_root()
    test.assertTrue(root, why_not)
    operator = Operator(beside)
    sockets = beside.bench.sockets
    mounts = (f"mount -t proc proc {root}/proc && mount -t tmpfs none {root}/tmp && mkdir -p {root}{sockets} && "
              f"mount --bind {sockets} {root}{sockets} && ")
    perl = start(beside, ["unshare", "-m", "sh", "-c", mounts + f'exec chroot {root} "$@"', "sh", "/usr/bin/perl", "-e", '$| = 1; print "ready\\n"; sleep 1000 while 1'])
    refused(test, operator, perl.pid, "does not use CUDA", passes=True)
    injected(test, operator, perl.pid, "in memory", forecast=False)
    test.assertTrue(alive(perl))
    dash = start(beside, ["chroot", root, "/bin/sh", "-c", "echo ready; read line"], stdin=subprocess.PIPE)
    refused(test, operator, dash.pid, "lack pthread_create", force=True)
    test.assertTrue(alive(dash))


def two_at_once(test, beside):
    beside.start(shim=False)
    command = [str(word) for word in (Operator(beside).pillion, "inject", "-pid", beside.workload.pid, "-socket-dir",
                                      beside.bench.sockets)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=60) for process in both]
    codes = [process.returncode for process in both]
    test.assertIn(DONE, codes, said)
    # Traced by the other, or taken by it, or too late.
    test.assertTrue(set(codes) <= {DONE, REFUSED}, (codes, said))
    wait_until(lambda: Operator(beside).doctor(beside.workload.pid)[0] == DONE, "the shim to be there")
    beside.attach()
    beside.exact()
    beside.end()


def dies_in_the_middle(test, beside):
    """At any moment: inject ends in good time and says what became of the process."""
    operator = Operator(beside)
    codes = []
    for attempt in range(12):
        workload = beside.bench.workload("launch_loop", "--seconds", 0, "--rate", 100, shim=False)
        wait_until(lambda pid=workload.pid: operator.doctor(pid)[0] == DONE, "it to use CUDA")
        command = [str(word) for word in (operator.pillion, "inject", "-pid", workload.pid, "-socket-dir",
                                          beside.bench.sockets)]
        inject = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(attempt * 0.002)  # not a condition: when it dies is what is tried out
        workload.process.kill()
        said = inject.communicate(timeout=40)
        codes.append(inject.returncode)
        test.assertIn(inject.returncode, (DONE, GONE), said)
    test.assertIn(GONE, codes)


ROWS = [
    row(a_cuda_program), row(not_position_independent), row(many_threads), row(leader_has_ended),
    row(mount_namespace_with_proc, NEEDS_ROOT), row(mount_namespace_without_proc, NEEDS_ROOT),
    row(chroot_without_proc, NEEDS_ROOT), row(chroot_without_libraries, NEEDS_ROOT), row(proc_of_another_namespace, NEEDS_ROOT), row(pid_namespace, NEEDS_ROOT),
    row(statically_linked), row(static_position_independent), row(musl), row(of_32_bits), row(no_cuda),
    row(filter_that_kills), row(filter_that_refuses), row(traced), row(another_user_without_rights, NEEDS_ROOT), row(root_without_the_capability, NEEDS_ROOT),
    row(both_without_the_capability, NEEDS_ROOT), row(another_user_with_the_capability_alone, NEEDS_ROOT),
    row(epoll_with_the_capability_alone, NEEDS_ROOT), row(not_dumpable, NEEDS_ROOT), row(in_a_user_namespace, NEEDS_ROOT), row(from_within_a_user_namespace, NEEDS_ROOT),
    row(stopped), row(between_vfork_and_exec), row(pillion_itself_and_no_process), row(glibc_of_bullseye, NEEDS_ROOT),
    row(two_at_once), row(dies_in_the_middle), *SHORTAGES, *DELIVERIES]


class TargetsTest(ProfileTest):
    def test_rows(self):
        run_rows(self, ROWS, workers=3)


if __name__ == "__main__":
    main()
