#include "harness/lua/lua_command.h"
const bind_group lua_command_groups[] = {
    {NULL, "tf", NULL, NULL, 0},
};
const size_t lua_command_group_count = sizeof lua_command_groups / sizeof lua_command_groups[0];
