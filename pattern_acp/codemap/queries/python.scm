; Definitions. A captured @body is where a signature ends.
(class_definition name: (identifier) @name body: (_) @body) @def.class
(function_definition name: (identifier) @name body: (_) @body) @def.function
(module (expression_statement (assignment left: (identifier) @name) @def.variable))
(module (type_alias_statement left: (type (identifier) @name)) @def.type)
(class_definition body: (block (expression_statement (assignment left: (identifier) @name) @def.field)))

(import_statement) @import
(import_from_statement) @import

(call function: (identifier) @call)
(call function: (attribute object: (_) @receiver attribute: (identifier) @call))
(decorator (identifier) @call)
(decorator (attribute object: (_) @receiver attribute: (identifier) @call))
(class_definition superclasses: (argument_list (identifier) @inherit))
(class_definition superclasses: (argument_list (attribute object: (_) @receiver attribute: (identifier) @inherit)))
(class_definition superclasses: (argument_list (subscript value: (identifier) @inherit)))
(class_definition superclasses: (argument_list
  (subscript value: (attribute object: (_) @receiver attribute: (identifier) @inherit))))
(type (identifier) @type)
(type (generic_type (identifier) @type))
(type (binary_operator (identifier) @type))
(type (attribute object: (_) @receiver attribute: (identifier) @type))
