/* tickwheel.c - the command line: everything is in src/cli. */
#include "cli/cli.h"

int main(int argc, char **argv)
{
    return cli_run(argc, argv);
}
