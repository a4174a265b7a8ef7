# What happens in the image: each step says when it began, and the first that fails ends it.
set -euo pipefail
export PATH=/opt/edge-runtime/bin:$PATH HOME=/root SYSTEMD_COLORS=0 SYSTEMD_EMOJI=0
watchdog=30 patience=300 look=0.1  # s; a machine that is emulated has others
[[ -f /srv/settings.sh ]] && . /srv/settings.sh

now() { cut -d' ' -f1 /proc/uptime; }
step() { echo; echo "== $* [at $(now) s]"; }
show() { systemctl show edge-runtime -p "$1" --value; }
since() { awk "BEGIN { printf \"%.1f s\", $(now) - $1 }"; }
files() {
    find /etc /usr /opt /var /srv -xdev \( -name __pycache__ -o -path /var/log \
        -o -path /var/tmp -o -path /var/lib/systemd \) -prune -o -print |
        grep -vE '^/etc/(\.pwd\.lock|(passwd|shadow|group|gshadow|subuid|subgid)-?)$' |
        grep -v '/edge-runtime.service.d' | sort  # of this trial, and purged with ours
}
# Until it is ready after so many restarts.
again() {
    local until=$((SECONDS + patience))
    while [[ $SECONDS -lt $until ]]; do
        [[ "$(show NRestarts)" -ge "$1" && "$(show ActiveState)" == active ]] && return
        sleep "$look"
    done
    systemctl status edge-runtime || true
    return 1
}
failed() {
    echo "== FAILED in line $1"
    journalctl -u edge-runtime -n 40 -o cat --no-pager || true
}
trap 'failed $LINENO' ERR

step "systemd $(systemctl --version | head -1)"
files >/root/before
getent passwd >/root/users

step "install"
cp -r /srv/store /var/lib/edge-runtime  # as somebody does who has pulled it as root before
edge-runtime service install 2>&1 | cat
edge-runtime service status
edge-runtime service status --json
systemd-analyze security edge-runtime --no-pager | tail -1
systemd-analyze verify edge-runtime.service edge-runtime.socket edge-runtime-build.service

step "start to ready, the model in the store"
began=$(now)
systemctl restart edge-runtime
echo "systemctl restart came back ready after $(since "$began")"

step "captions by its port"
edge-runtime listen --fast /srv/demo.flac 2>&1 | cat

step "reload"
systemctl reload edge-runtime
[[ "$(show ActiveState)" == active ]]

if [[ -z "${brief:-}" ]]; then  # what waits for the watchdog
step "idle beyond the watchdog's time: fed, not restarted"
sleep $((watchdog + 5))
echo "restarts: $(show NRestarts); last fed $(show WatchdogTimestamp), now $(date)"
[[ "$(show NRestarts)" == 0 ]]

step "the engine's threads stand still"
began=$(now)
python3 /srv/stick.py "$(show MainPID)" lanes &
sleep $((watchdog / 3))
echo "status: $(show StatusText)"
again 1
echo "ready again after $(since "$began"); the watchdog waits $(show WatchdogUSec)"
journalctl -u edge-runtime -o cat --no-pager | grep -E ' hangs|Watchdog|exited' | tail -3

step "the event loop stands still"
began=$(now)
python3 /srv/stick.py "$(show MainPID)" loop &
again 2
echo "ready again after $(since "$began")"
journalctl -u edge-runtime -o cat --no-pager | grep 'Watchdog timeout' | tail -1
fi

step "the process is killed"
began=$(now) restarts=$(show NRestarts)
kill -KILL "$(show MainPID)"
again $((restarts + 1))
echo "ready again after $(since "$began")"
edge-runtime listen --fast /srv/demo.flac 2>&1 | tail -1

step "SIGTERM under load"
for n in 1 2 3; do
    # one that is turned away by a crowd comes again
    until [[ -e /root/stopping ]]; do
        edge-runtime listen --json /srv/demo.flac || sleep 1
    done >"/root/heard-$n" 2>"/root/said-$n" &
done
until=$((SECONDS + patience))
while [[ "$(show StatusText)" != *" 3 of 32"* && $SECONDS -lt $until ]]; do sleep "$look"; done
echo "status: $(show StatusText)"
[[ "$(show StatusText)" == *" 3 of 32"* ]]
touch /root/stopping
began=$(now)
systemctl stop edge-runtime
echo "stopped after $(since "$began"): $(show Result), exit status $(show ExecMainStatus)"
[[ "$(show Result) $(show ExecMainStatus)" == "success 0" ]]
wait || true
for n in 1 2 3; do
    echo "client $n: $(grep -c '"final"' "/root/heard-$n") finals, then $(tail -1 "/root/heard-$n")"
    tail -1 "/root/heard-$n" | grep -q '"shutdown"'
done

step "the socket holds the port"
edge-runtime service install --socket 2>&1 | cat
systemctl disable --quiet edge-runtime.service
began=$(now)
edge-runtime listen --fast /srv/demo.flac 2>&1 | tail -1
echo "the first client was answered, $(since "$began") with its start; $(show StatusText)"

step "what the journal has of warnings"
journalctl -u edge-runtime -p warning -o cat --no-pager | sort | uniq -c | head -20

step "uninstall"
edge-runtime service uninstall --keep
systemctl list-unit-files 'edge-runtime*' --no-legend | grep . && false
edge-runtime service uninstall --purge
diff <(files) /root/before
echo "no file is left, none is missing"
diff <(getent passwd) /root/users
echo "no user is left"
pgrep -fa 'edge-runtime serve' && false

step "all of it went well"
