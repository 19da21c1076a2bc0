(function_definition declarator: [
  (function_declarator declarator: (_) @name)
  (pointer_declarator declarator: (function_declarator declarator: (_) @name))
  (reference_declarator (function_declarator declarator: (_) @name))]
  body: (_) @body) @def.function
(function_definition declarator: [
  (function_declarator declarator: (_) @name)
  (reference_declarator (function_declarator declarator: (_) @name))]
  !body) @def.function
(declaration declarator: [
  (function_declarator declarator: (_) @name)
  (pointer_declarator declarator: (function_declarator declarator: (_) @name))
  (reference_declarator (function_declarator declarator: (_) @name))]) @def.prototype
(field_declaration declarator: [
  (function_declarator declarator: (_) @name)
  (pointer_declarator declarator: (function_declarator declarator: (_) @name))
  (reference_declarator (function_declarator declarator: (_) @name))]) @def.method
(declaration declarator: (identifier) @name) @def.global
(declaration declarator: (init_declarator declarator: (identifier) @name value: (_) @body)) @def.global
(declaration declarator: (init_declarator declarator: (pointer_declarator declarator: (identifier) @name) value: (_) @body)
  ) @def.global
(class_specifier name: (_) @name body: (_) @body) @def.class
(struct_specifier name: (_) @name body: (_) @body) @def.class
(union_specifier name: (_) @name body: (_) @body) @def.class
(enum_specifier name: (_) @name body: (_) @body) @def.enum
(enumerator name: (identifier) @name) @def.constant
(namespace_definition name: (_) @name) @scope
(type_definition declarator: (type_identifier) @name) @def.alias
(alias_declaration name: (type_identifier) @name) @def.type
(concept_definition name: (identifier) @name) @def.interface
(preproc_def name: (identifier) @name value: (_)) @def.macro
(preproc_function_def name: (identifier) @name) @def.macro
(field_declaration declarator: (field_identifier) @name) @def.field
(field_declaration declarator: (pointer_declarator declarator: (field_identifier) @name)) @def.field

(preproc_include) @import

(call_expression function: (identifier) @call)
(call_expression function: (field_expression argument: (_) @receiver field: (field_identifier) @call))
(call_expression function: (qualified_identifier) @call)
(call_expression function: (template_function name: (identifier) @call))
(new_expression type: (type_identifier) @call)
(new_expression type: (qualified_identifier) @call)
(base_class_clause (type_identifier) @inherit)
(base_class_clause (qualified_identifier) @inherit)
(base_class_clause (template_type name: (type_identifier) @inherit))
(parameter_declaration type: (type_identifier) @type)
(parameter_declaration type: (qualified_identifier) @type)
(declaration type: (type_identifier) @type)
(declaration type: (qualified_identifier) @type)
(field_declaration type: (type_identifier) @type)
(function_definition type: (type_identifier) @type)
(template_type name: (type_identifier) @type)
(type_descriptor type: (type_identifier) @type)
