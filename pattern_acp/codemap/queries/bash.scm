(function_definition name: (word) @name body: (_) @body) @def.function
(program (variable_assignment name: (variable_name) @name) @def.variable)
(program (declaration_command (variable_assignment name: (variable_name) @name) @def.variable))

(command name: (command_name (word) @required) argument: (_) (#any-of? @required "source" ".")) @import

(command name: (command_name (word) @call))
