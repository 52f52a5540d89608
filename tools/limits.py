"""How long to wait, in seconds, before something counts as stuck.

Where a machine has other work everything takes two to four times as long, so a limit is at least three times what the
longest case takes on two idle cores, which stands behind it. A test fails by its limit only when something hangs.
"""

CELL = 1800  # a cell of a chapter: 90 seconds, the training of chapter 59
KERNEL = 300  # the start of a notebook's kernel: 3 seconds
OUTPUT = 120  # the next message of a cell that has ended: less than a second
PROCESS = 600  # a command that a test starts, or what it waits for: 10 seconds
PAGE = 180  # something that a page of the site has to show: 5 seconds
BOOK = 1800  # the same of the whole book as one page: a minute
