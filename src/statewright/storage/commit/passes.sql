-- Transactions that may write suspended entities: what was half done when these were suspended.

-- [guard]
                AND staged.t <> ALL (ARRAY(SELECT (pass ->> 't')::int FROM json_array_elements($passes::json) AS pass))
