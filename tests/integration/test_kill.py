"""Promises 1 and 2: whatever is killed and whenever, nothing is lost, nothing counts twice, and log and snapshots are byte for byte
what `ctxpipe replay` makes of the collector's stream."""
import os
import signal

from feeding import Feeder, complete, down, greeted, pids_of, same_as_replay, up
from harness import check, gone, main, same, test
from load import Load

TURNS = 1120  # three agents: 3 * (1120 * 6 + 28 * 5) = 20,580 events


@test
def each_daemon_is_killed_in_the_middle_of_a_load(place):
    supervisor = up(place)
    loads = [Load(name, TURNS) for name in ('pi@one', 'pi@two', 'claude@three')]
    feeders = [Feeder(place, work) for work in loads]
    check(sum(len(feeder.lines) for feeder in feeders) >= 20000, 'the load is too small')
    for feeder in feeders:
        feeder.start()
    nodes = list(pids_of(supervisor.text))
    share = min(len(feeder.lines) for feeder in feeders) // 100 // (len(nodes) + 1)
    for node in nodes:
        for feeder in feeders:
            feeder.release(share)
        os.kill(pids_of(supervisor.text)[node], signal.SIGKILL)
        line = supervisor.wait_for('ready again')
        same(line.split()[0], node, 'the node that was started again')
    for feeder in feeders:
        feeder.finish()
    down(place, supervisor)
    complete(place, loads)
    same_as_replay(place)


@test
def everything_is_killed_at_once_and_goes_on(place):
    loads = [Load(name, 280) for name in ('pi@one', 'pi@two')]
    supervisor = up(place)
    feeders = [Feeder(place, work) for work in loads]
    for feeder in feeders:
        feeder.start()
    for _ in range(2):
        for feeder in feeders:
            feeder.release(4)
        greeted(place, loads)
        pids = [supervisor.process.pid, *pids_of(supervisor.text).values()]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        supervisor.process.wait()
        check(all(gone(pid) for pid in pids[1:]), 'a killed daemon still runs')
        supervisor = up(place)
    for feeder in feeders:
        feeder.finish()
    down(place, supervisor)
    complete(place, loads)
    same_as_replay(place)


@test
def the_supervisor_is_killed_alone_and_its_daemons_do_not_stay(place):
    supervisor = up(place)
    pids = pids_of(supervisor.text).values()
    os.kill(supervisor.process.pid, signal.SIGKILL)
    check(all(gone(pid) for pid in pids), 'a daemon outlived its supervisor')
    supervisor = up(place)
    down(place, supervisor)


@test
def a_sender_is_killed_and_sends_its_events_again(place):
    supervisor = up(place)
    work = Load('pi@one', 280)
    first = Feeder(place, work)
    first.start()
    first.release(5)
    first.kill()
    place.ctxpipe('send', '--agent', work.agent, '--key', work.agent, input='\n'.join(first.lines) + '\n')
    down(place, supervisor)
    complete(place, [work])
    same_as_replay(place)


main()
