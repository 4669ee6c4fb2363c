// What every program does before anything else.
#ifndef BASE_PROCESS_START_H
#define BASE_PROCESS_START_H

// Opens /dev/null in place of standard streams that are closed: the next file that is opened would
// take their numbers, and what is printed would be written into it. And a file that may grow no
// further (RLIMIT_FSIZE) is an error of the write then, no signal that ends the program.
void base_process_start(void);

#endif
