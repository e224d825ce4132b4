"""What every room stands on: errors, frozen dataclasses, interrupts, memory, threads. Rule of the room: nothing here
imports another room of pgrepl."""
