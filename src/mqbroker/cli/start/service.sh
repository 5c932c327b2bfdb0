#!/bin/sh
# Starts and stops the broker of this instance in the background.

instance=$(cd "$(dirname "$0")/.." && pwd) || exit 1
folder=$(cd "$instance" && pwd -P)
service=$(basename "$0")
pid_file="$instance/data/artemis.pid"
log="$instance/log/artemis.log"
start_seconds=60
mkdir -p "$instance/data" "$instance/log"

running() {
  [ -f "$pid_file" ] && pid=$(cat "$pid_file") && kill -0 "$pid" 2>/dev/null && is_broker
}

# After a crash or a reboot the number may be that of another process, which is none of our business.
is_broker() {
  if [ -r "/proc/$pid/cmdline" ]; then
    words=$(tr '\0' ' ' <"/proc/$pid/cmdline")
  else
    words=$(ps -p "$pid" -o args= 2>/dev/null) || return 0
  fi
  case "$words " in
    *"$instance/bin/"* | *"mqbroker.cli run "* | *"--instance $folder "*) return 0 ;;
    *) return 1 ;;
  esac
}

start() {
  if running; then
    echo "Already running."
    return 1
  fi
  touch "$log" || return 1
  before=$(wc -c <"$log")
  nohup "$instance/bin/mqbroker" run >>"$log" 2>&1 &
  echo $! >"$pid_file"
  seconds=0
  while [ "$seconds" -lt "$start_seconds" ]; do
    sleep 1
    seconds=$((seconds + 1))
    if said | grep -q AMQ221007; then
      echo "$service is now running ($!)"
      return 0
    fi
    if ! running; then
      rm -f "$pid_file"
      echo "Could not start $service: see $log"
      said | tail -n 1
      return 1
    fi
  done
  echo "$service ($!) has not become active within $start_seconds seconds and goes on: see $log"
}

# The log since the start.
said() {
  tail -c "+$((before + 1))" "$log"
}

stop() {
  if ! running; then
    echo "$service is stopped"
    return 0
  fi
  kill "$1" "$pid"
  for second in 1 2 3 4 5 6 7 8 9 10; do
    running || { rm -f "$pid_file"; return 0; }
    sleep 1
  done
  echo "Could not stop process $pid"
  return 1
}

case "$1" in
  start) start ;;
  stop) stop -TERM ;;
  force-stop) stop -KILL ;;
  restart) stop -TERM && start ;;
  status)
    if running; then
      echo "$service is running ($pid)"
    else
      echo "$service is stopped"
      exit 3
    fi
    ;;
  *)
    echo "Usage: $0 {start|stop|restart|force-stop|status}" >&2
    exit 2
    ;;
esac
