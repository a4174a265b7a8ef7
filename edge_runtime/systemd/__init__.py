"""What a service and systemd say to each other: readiness, watchdog, sockets, log priorities."""
