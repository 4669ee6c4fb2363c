// What every program does before anything else.
#ifndef BASE_PROCESS_START_H
#define BASE_PROCESS_START_H

#include <stdbool.h>

// Opens /dev/null in place of standard streams that are closed: the next file that is opened would
// take their numbers, and what is printed would be written into it. And a file that may grow no
// further (RLIMIT_FSIZE) is an error of the write then, no signal that ends the program.
//
// At the exit with status 0 of a program whose standard output could not be written whole (a full
// disk behind it), says so on standard error and makes the status `lost`: what was printed is the
// result of --help, --version and every command. The C library's own exit does not look.
void base_process_start(int lost);
// Of a command line that is "--version" alone: prints the program's name and version, and is true.
bool base_process_version(int argc, char **argv, const char *name);

#endif
