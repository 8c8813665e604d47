/* tickwheel.c - the command line: everything is in src/cli. */
#include "cli/run.h"

int main(int argc, char **argv)
{
    return run_program(argc, argv);
}
