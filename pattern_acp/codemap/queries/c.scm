(function_definition declarator: [
  (function_declarator declarator: (_) @name)
  (pointer_declarator declarator: (function_declarator declarator: (_) @name))
  (pointer_declarator declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name)))]
  body: (_) @body) @def.function
(declaration declarator: [
  (function_declarator declarator: (identifier) @name)
  (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))
  (pointer_declarator declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name)))]
  ) @def.prototype
(declaration declarator: (identifier) @name) @def.global
(declaration declarator: (init_declarator declarator: (identifier) @name value: (_) @body)) @def.global
(declaration declarator: (init_declarator declarator: (pointer_declarator declarator: (identifier) @name) value: (_) @body)
  ) @def.global
(declaration declarator: (init_declarator declarator: (array_declarator declarator: (identifier) @name) value: (_) @body)
  ) @def.global
(struct_specifier name: (type_identifier) @name body: (_) @body) @def.type
(union_specifier name: (type_identifier) @name body: (_) @body) @def.type
(enum_specifier name: (type_identifier) @name body: (_) @body) @def.enum
(enumerator name: (identifier) @name) @def.constant
(type_definition declarator: (type_identifier) @name) @def.alias
(type_definition declarator: (pointer_declarator declarator: (type_identifier) @name)) @def.alias
(type_definition declarator: (function_declarator
  declarator: (parenthesized_declarator (pointer_declarator declarator: (type_identifier) @name)))) @def.alias
(preproc_def name: (identifier) @name value: (_)) @def.macro
(preproc_function_def name: (identifier) @name) @def.macro
(field_declaration declarator: (field_identifier) @name) @def.field
(field_declaration declarator: (pointer_declarator declarator: (field_identifier) @name)) @def.field

(preproc_include) @import

(call_expression function: (identifier) @call)
(call_expression function: (field_expression argument: (_) @receiver field: (field_identifier) @call))
(parameter_declaration type: (type_identifier) @type)
(declaration type: (type_identifier) @type)
(field_declaration type: (type_identifier) @type)
(function_definition type: (type_identifier) @type)
(parameter_declaration type: (struct_specifier name: (type_identifier) @type !body))
(declaration type: (struct_specifier name: (type_identifier) @type !body))
(field_declaration type: (struct_specifier name: (type_identifier) @type !body))
