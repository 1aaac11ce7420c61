"""What all tests start from."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells ignore interrupts in what they run in the background, and children inherit that: tests that interrupt
    # them would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
