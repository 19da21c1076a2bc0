(class name: (_) @name body: (_)? @body) @def.class
(module name: (_) @name body: (_)? @body) @def.module
(method name: (_) @name body: (_)? @body) @def.function
(singleton_method name: (_) @name body: (_)? @body) @def.function
(assignment left: (constant) @name) @def.constant
(assignment left: (scope_resolution name: (constant)) @name) @def.constant
(call !receiver method: (identifier) @macro arguments: (argument_list (simple_symbol) @name) @def.field
  (#any-of? @macro "attr_reader" "attr_writer" "attr_accessor"))

(call !receiver method: (identifier) @required arguments: (argument_list (string))
  (#any-of? @required "require" "require_relative" "load" "autoload")) @import

(call !receiver method: (identifier) @call)
(call receiver: (_) @receiver method: (identifier) @call)
(superclass [(constant) (scope_resolution)] @inherit)
(call !receiver method: (identifier) @macro arguments: (argument_list [(constant) (scope_resolution)] @inherit)
  (#any-of? @macro "include" "extend" "prepend"))
(scope_resolution name: (constant) @type)
