/*
 * run.h - the command line `tickwheel`: one run of one verb.
 *
 * bin/tickwheel.c passes its arguments to run_program. That finds the verb in the table of verbs.c,
 * reads the flags by that table, the settings from flags, environment and config file, and calls
 * the verb.
 *
 * Errors     The exit code of the program, after it said why.
 * Threads    One.
 */
#ifndef TICKWHEEL_CLI_RUN_H
#define TICKWHEEL_CLI_RUN_H

/* Runs the program, and returns its exit code. */
int run_program(int argc, char **argv);

#endif
